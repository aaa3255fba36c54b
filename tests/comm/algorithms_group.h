// The ranks for tests of collective algorithms.
#pragma once

#include <mpi.h>

#include <cstdint>

#include "collective_cases/case_data.h"
#include "comm/communicator.h"

namespace hidup {

// Both have all ranks, and exist as long as main() runs.
extern MPI_Comm g_group;
extern Communicator* g_world;

inline constexpr int64_t kSmallPiece = 1000;  // elements: cuts nearly every message

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
