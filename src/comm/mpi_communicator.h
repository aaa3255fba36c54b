// The MPI back end of Communicator. For the sources of this folder only.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/communicator.h"

namespace hidup {

// Works on duplicates of `group`: one for device collectives, one for host
// collectives, so that the two never mix when they run on different threads.
// Device collectives block the stream's worker thread (Open MPI's non-blocking
// collectives do not progress by themselves).
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm group);

}  // namespace hidup
