// Inside the CUDA kernels: positions in the grid, sums over warps and blocks.
//
// All orders of addition are fixed, so results repeat to the bit.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda_launch.h"

namespace hidup::kernels {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The number of this thread in a grid of one dimension, and the number of all threads.
__device__ inline int64_t thread_of_grid() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t threads_of_grid() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

template <typename T>
__device__ T smaller(T a, T b) {
  return a < b ? a : b;
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct Max {  // passes over NaN, as fmaxf
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The values of `kLanes` neighbouring lanes, a power of 2 up to 32, combined; all of them get it.
// All lanes of the warp must come here.
template <int kLanes = kWarp, typename T, typename Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (int bit = kLanes / 2; bit > 0; bit /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, bit));
  }
  return value;
}

// The values of all kGroup threads that work together, 32 or the whole block; all of them get it.
template <int kGroup, typename T, typename Combine>
__device__ T group_reduce(T value, Combine combine) {
  value = warp_reduce(value, combine);
  if constexpr (kGroup > kWarp) {
    __shared__ T partials[kGroup / kWarp];
    __syncthreads();  // others may still read what the last call left
    if (threadIdx.x % kWarp == 0) {
      partials[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    value = partials[0];
    for (int i = 1; i < kGroup / kWarp; ++i) {
      value = combine(value, partials[i]);
    }
  }
  return value;
}

// Whether all pointers allow loads of 16 bytes.
template <typename... Pointers>
bool aligned16(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace hidup::kernels
