// The frame of the commands that mpirun starts.
#pragma once

#include <functional>

#include "comm/mpi_session.h"

namespace hidup {

// Runs the work between start and end of MPI. Returns its exit code, the same on all ranks, or that
// of an error that all ranks have together, which one of them prints. Any other exception ends all
// ranks where it is thrown (comm/mpi_session.h): so there must be no handler around this.
int run_job(int* argc, char*** argv, const std::function<ExitCode(MpiSession&)>& work);

}  // namespace hidup
