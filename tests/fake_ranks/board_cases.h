// Collective cases of the board (comm/board.h).
#pragma once

#include "comm/communicator.h"

namespace hidup {

void a_board_gives_each_row_its_largest(Communicator& world);
void memory_is_shared_by_the_ranks_of_a_host(Communicator& world);

}  // namespace hidup
