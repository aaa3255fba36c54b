// Device memory that the host cannot reach, inside the shim: see DeviceAccess in state.h.
#pragma once

#include <cstddef>

namespace cuda_shim {

// Returns true if the environment variable CUDA_SHIM_PROTECT is set.
bool protects();

// Return alignment and size of an allocation's block: whole pages where blocks are protected.
size_t block_alignment();
size_t block_bytes(size_t bytes);

void set_block_reachable(void* block, size_t bytes, bool reachable);

}  // namespace cuda_shim
