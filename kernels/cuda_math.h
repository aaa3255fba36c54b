// Positions in the grid, and sums over warps and blocks, for CUDA kernels.
//
// All orders of addition are fixed, so repeated runs give equal bits.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda_launch.h"

namespace hidup::kernels {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Return the number of this thread in a one-dimensional grid, and the number of all threads.
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

struct Max {  // ignores NaN like fmaxf
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Combines the values of `kLanes` neighbouring lanes, a power of 2 up to 32; all of them get the
// result. All lanes of the warp must call it.
template <int kLanes = kWarp, typename T, typename Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (int bit = kLanes / 2; bit > 0; bit /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, bit));
  }
  return value;
}

// Returns the sum of the values of the lanes up to this one. All lanes of the warp must call it.
__device__ inline int32_t warp_sum_up_to(int32_t value) {
  for (unsigned delta = 1; delta < kWarp; delta *= 2) {
    const int32_t other = __shfl_up_sync(kAllLanes, value, delta);
    value += threadIdx.x % kWarp >= delta ? other : 0;
  }
  return value;
}

// Combines the values of kGroup cooperating threads, 32 or the whole block; all get the result.
template <int kGroup, typename T, typename Combine>
__device__ T group_reduce(T value, Combine combine) {
  value = warp_reduce(value, combine);
  if constexpr (kGroup > kWarp) {
    __shared__ T partials[kGroup / kWarp];
    __syncthreads();  // others may still read data of the last call
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

// Returns true if all pointers allow loads of 16 bytes.
template <typename... Pointers>
bool aligned16(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace hidup::kernels
