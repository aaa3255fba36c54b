// Costs on links that nobody measured, from those of links that somebody did.
#pragma once

#include <vector>

#include "cost/profile.h"

namespace hidup {

// Of every collective along the axis, the time of the smallest message that was timed is taken to
// be latency, and what a longer one takes beyond it to grow with what a rank sends. Copies that
// pack messages stay as they are.

// By what factors what each rank sends grows, and the number of messages that follow each other.
struct VolumeGrowth {
  double bytes = 1.0;
  double depth = 1.0;
};
// Of a collective, if `ranks` do it instead of `now`, at least two each, as roofline_profile() has
// it.
VolumeGrowth growth_of(Opcode opcode, int64_t now, int64_t ranks);

// The times of a collective then.
std::vector<MessageTime> with_volume(std::vector<MessageTime> table, const VolumeGrowth& growth);

// As if the links along the axis had `factor` times the bandwidth.
Profile with_bandwidth(Profile profile, size_t axis, double factor);

// As if so many ranks were along the axis: growth_of().
Profile with_ranks(Profile profile, size_t axis, int64_t ranks);

}  // namespace hidup
