// Facts about the job that the launcher tells a process without MPI.
#pragma once

#include <string>

#include "core/check.h"

namespace hidup {

// Return this process's rank and the number of ranks; -1 and 0 if the launcher does not tell.
int launched_rank();
int launched_ranks();

// Prints the message of a process that is about to end. If another rank of the job on this host has
// printed one and is still ending, prints nothing and waits a second for that rank to abort all:
// ranks often fail together, for the same cause.
void say_last_words(const std::string& message);

// Ends the process where MPI cannot abort the others: the launcher does so when it sees the code.
[[noreturn]] void end_without_mpi(ExitCode code, const std::string& message);

}  // namespace hidup
