// Memory that the ranks of a host share. For the sources of this folder.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hidup {

// Implements Communicator::share_memory() for the ranks of `group` with a shared window (MPI-3).
// Destruction is collective, too.
std::shared_ptr<std::byte> share_host_memory(MPI_Comm group, int64_t bytes);

// Collective. Returns true if all ranks of the group can share such memory.
bool on_one_host(MPI_Comm group);

}  // namespace hidup
