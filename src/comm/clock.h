// A common clock of all ranks.
#pragma once

#include <string>

#include "comm/communicator.h"

namespace hidup {

// Returns the seconds to subtract from this rank's monotonic_seconds() to get seconds since the
// run's start on rank 0's clock. Hosts compare their clocks at the ends of barriers and take the
// median of several; ranks on rank 0's host share its clock.
double run_start(Communicator& world, const std::string& host);

}  // namespace hidup
