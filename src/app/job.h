// The frame of the commands that mpirun starts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/heartbeat.h"
#include "comm/mpi_session.h"

namespace hidup {

class Executor;  // runtime/executor.h

// Runs the work between start and end of MPI. Returns its exit code, the same on all ranks, or that
// of an error that all ranks have together, which one of them prints. Any other exception ends all
// ranks where it is thrown (comm/mpi_session.h): so there must be no handler around this.
int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work);

// Until run_steps(): signs of life (comm/heartbeat.h) say that this rank is starting.
Heartbeat::Guide guide_of_start(MpiSession& mpi);

// Does the work, which is steps of the executor, each called a `unit`. Meanwhile signs of life say
// at which instruction of which step this rank is; `current`: its number, from any thread, 0 before
// the first. A rank that fails alone ends all ranks from here: unwinding would wait for collectives
// that the others never finish. A CollectiveError, which all ranks have, passes.
void run_steps(MpiSession& mpi, const std::string& unit, const std::function<int64_t()>& current,
               const Executor& executor, const std::function<void()>& work);

}  // namespace hidup
