// Collective cases of elements of 16 bits.
#pragma once

#include "comm/communicator.h"

namespace hidup {

void sixteen_bits_are_summed(Communicator& world);
void two_bytes_are_moved(Communicator& world);

}  // namespace hidup
