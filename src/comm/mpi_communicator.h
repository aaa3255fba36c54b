// The MPI back end of Communicator. For the sources of this folder and its tests.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "comm/communicator.h"

namespace hidup {

// Elements of 4 bytes that one MPI call carries: counts are ints, and Linux copies less than 2 GiB
// between two processes at once.
inline constexpr int64_t kMaxPiece = int64_t{1} << 28;

// Returns a communicator on two duplicates of `group`, one for device and one for host collectives,
// which never mix even on different threads. Device collectives block the stream's worker thread
// (Open MPI's non-blocking collectives do not progress by themselves). Groups split from it inherit
// `max_piece`.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm group, int64_t max_piece = kMaxPiece);

}  // namespace hidup
