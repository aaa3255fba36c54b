// What a process knows of its job without MPI, from its launcher.
#pragma once

#include <string>

#include "core/check.h"

namespace hidup {

// This process's number among the ranks, and how many there are; -1 and 0 where nobody says.
int launched_rank();
int launched_ranks();

// Ends the process where MPI cannot bring the others down: the launcher does, as it sees the code.
// Of the ranks of a host that come here within a second, the first one prints its message.
[[noreturn]] void end_without_mpi(ExitCode code, const std::string& message);

}  // namespace hidup
