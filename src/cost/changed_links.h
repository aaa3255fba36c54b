// Costs on links that nobody measured, from those of links that somebody did.
#pragma once

#include "cost/profile.h"

namespace hidup {

// Of every collective along the axis, the time of the smallest message that was timed is taken to
// be latency, and what a longer one takes beyond it to grow with what a rank sends. Copies that
// pack messages stay as they are.

// As if the links along the axis had `factor` times the bandwidth.
Profile with_bandwidth(Profile profile, size_t axis, double factor);

// As if so many ranks were along the axis, at least two each: what a rank sends, and the number of
// messages that follow each other, grow as in roofline_profile().
Profile with_ranks(Profile profile, size_t axis, int64_t ranks);

}  // namespace hidup
