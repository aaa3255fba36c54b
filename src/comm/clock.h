// One time for all ranks.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace hidup {

// What to subtract from this rank's monotonic_seconds() to get seconds since the
// run's start on rank 0's clock. Hosts' clocks are compared at the ends of
// barriers (the median of several); ranks on rank 0's host share its clock.
double run_start(Communicator& world, const std::string& host);

}  // namespace hidup
