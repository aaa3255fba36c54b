// Collective cases whose results lie where a rank's own part does.
#pragma once

#include "comm/communicator.h"

namespace hidup {

void device_gather_and_scatter_in_place(Communicator& world);

}  // namespace hidup
