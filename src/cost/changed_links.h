// Message times on links that nobody measured, derived from measured links.
#pragma once

#include "cost/profile.h"

namespace hidup {

// Both functions split the times of every collective along the axis: the time of the smallest
// measured message is latency, and the rest of a longer message's time grows with the bytes that a
// rank sends. Copies that pack messages stay as they are.

// Returns the profile with `factor` times the bandwidth along the axis.
Profile with_bandwidth(Profile profile, size_t axis, double factor);

// Returns the profile with `ranks` ranks along the axis (at least two now and then). The bytes that
// a rank sends and the number of consecutive messages grow as in roofline_profile().
Profile with_ranks(Profile profile, size_t axis, int64_t ranks);

}  // namespace hidup
