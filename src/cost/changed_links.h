// Costs on links that nobody measured, from those of links that somebody did.
#pragma once

#include <vector>

#include "cost/profile.h"

namespace hidup {

// Of every collective along the axis, the time of the smallest message that was timed is taken to
// be latency, and what a longer one takes beyond it to grow with what a rank sends. Copies that
// pack messages stay as they are.

// Of the times of a collective, those for which what each rank sends grows by the factor `growing`,
// and the number of messages that follow each other by `latency`.
std::vector<MessageTime> with_volume(std::vector<MessageTime> table, double latency,
                                     double growing);

// As if the links along the axis had `factor` times the bandwidth.
Profile with_bandwidth(Profile profile, size_t axis, double factor);

// As if so many ranks were along the axis, which has at least two: what a rank sends, and how many
// messages follow each other, change as roofline_profile() has it.
Profile with_ranks(Profile profile, size_t axis, int64_t ranks);

}  // namespace hidup
