// Collective cases that move whole values from ranks that have them to others.
#pragma once

#include "comm/communicator.h"

namespace hidup {

void device_move_is_the_sources(Communicator& world);

}  // namespace hidup
