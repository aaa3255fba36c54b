// Memory of the device that the host cannot reach, inside the shim: see DeviceAccess in state.h.
#pragma once

#include <cstddef>

namespace cuda_shim {

// Whether the environment variable CUDA_SHIM_PROTECT asks for it.
bool protects();

// Of what an allocation of that many bytes takes: whole pages where they are to be protected.
size_t block_alignment();
size_t block_bytes(size_t bytes);

void set_block_reachable(void* block, size_t bytes, bool reachable);

}  // namespace cuda_shim
