// What a process knows of its job without MPI, from its launcher.
#pragma once

#include <string>

#include "core/check.h"

namespace hidup {

// This process's number among the ranks, and how many there are; -1 and 0 where nobody says.
int launched_rank();
int launched_ranks();

// Prints the message of a process that is about to end. Where another rank of the job on this host
// has done so and not yet ended, it says nothing, and waits a second for that one to bring all
// down: ranks often fail together, for the same cause.
void say_last_words(const std::string& message);

// Ends the process where MPI cannot bring the others down: the launcher does, as it sees the code.
[[noreturn]] void end_without_mpi(ExitCode code, const std::string& message);

}  // namespace hidup
