// Memory that the ranks of a host have in common. For the sources of this folder.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hidup {

// As Communicator::share_memory(), of the ranks of `group`: a shared window (MPI-3). Its end is
// collective, too.
std::shared_ptr<std::byte> share_host_memory(MPI_Comm group, int64_t bytes);

// Collective: whether such memory has all ranks of the group.
bool on_one_host(MPI_Comm group);

}  // namespace hidup
