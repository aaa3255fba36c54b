// Collective cases whose result buffer contains the rank's own part.
#pragma once

#include "comm/communicator.h"

namespace hidup {

void device_gather_and_scatter_in_place(Communicator& world);

}  // namespace hidup
