// Inside the CUDA kernels: routing entries (route.h), decoded.
#pragma once

#include <cstdint>

#include "kernels/cuda_math.h"

namespace hidup::kernels {

// The expert that an entry chose, whether it got a slot or was dropped.
__device__ inline int64_t expert_of(int32_t entry, int64_t capacity) {
  return entry < 0 ? -(int64_t{entry} + 1) : entry / static_cast<int32_t>(capacity);
}

}  // namespace hidup::kernels
