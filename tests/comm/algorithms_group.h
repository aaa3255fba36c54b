// The ranks on which algorithms of collectives are tested.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "collective_cases/case_data.h"
#include "comm/communicator.h"

namespace hidup {

// Both of all ranks, as long as main() lasts.
extern MPI_Comm g_group;
extern Communicator* g_world;

inline constexpr int64_t kSmallPiece = 1000;  // elements: cuts nearly everything

inline int rank() {
  return g_world->rank();
}
inline int size() {
  return g_world->size();
}
inline int64_t own(const Counts& counts) {
  return counts[static_cast<size_t>(rank())];
}

}  // namespace hidup
