// Functions of kernels: thread indices, barriers, exchange within a warp, atomics, arithmetic.
//
// A thread that waits for others that never arrive is a fault: the kernel ends, and every later
// call of the runtime returns cudaErrorLaunchFailure (cuda_shim/fault.h has the reason). On a GPU
// such a kernel hangs or computes wrong values.
#pragma once

#include <math.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "cuda_shim/vector_types.h"

inline constexpr int warpSize = 32;
inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};

namespace cuda_shim {

enum class WarpOperation { sync, shuffle, ballot };

// Waits for all threads of the block; returns the number of threads whose `predicate` is true.
int block_barrier(bool predicate);

// Waits for the lanes of `mask` to come with the same operation and mask. A shuffle returns the
// value of lane `source`; a ballot returns the lanes whose value is not 0.
uint64_t warp_exchange(WarpOperation operation, unsigned mask, int source, uint64_t value);

int lane();

// Returns CUDA's extern __shared__ memory, aligned to 16 bytes and filled with ones.
void* dynamic_shared_memory();

template <typename T>
T shuffle(unsigned mask, T value, int source) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(WarpOperation::shuffle, mask, source, bits);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Returns the first lane of this lane's group of `width`, a power of 2.
inline int group_begin(int width) {
  return lane() & ~(width - 1);
}

}  // namespace cuda_shim

inline void __syncthreads() {
  cuda_shim::block_barrier(false);
}

inline int __syncthreads_count(int predicate) {
  return cuda_shim::block_barrier(predicate != 0);
}

inline int __syncthreads_or(int predicate) {
  return cuda_shim::block_barrier(predicate != 0) > 0 ? 1 : 0;
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFU) {
  cuda_shim::warp_exchange(cuda_shim::WarpOperation::sync, mask, 0, 0);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return static_cast<unsigned>(
      cuda_shim::warp_exchange(cuda_shim::WarpOperation::ballot, mask, 0, predicate != 0 ? 1 : 0));
}

inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0U ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask ? 1 : 0;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  return cuda_shim::shuffle(mask, value, cuda_shim::group_begin(width) + (source & (width - 1)));
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int source = cuda_shim::lane() - static_cast<int>(delta);
  return cuda_shim::shuffle(mask, value,
                            source < cuda_shim::group_begin(width) ? cuda_shim::lane() : source);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int source = cuda_shim::lane() + static_cast<int>(delta);
  const int end = cuda_shim::group_begin(width) + width;
  return cuda_shim::shuffle(mask, value, source >= end ? cuda_shim::lane() : source);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize) {
  const int source = cuda_shim::lane() ^ bits;
  const int end = cuda_shim::group_begin(width) + width;
  return cuda_shim::shuffle(mask, value, source >= end ? cuda_shim::lane() : source);
}

// Relaxed atomics, as on the GPU. They return the old value.
template <typename T>
T atomicAdd(T* address, T value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}

template <typename T>
T atomicCAS(T* address, T expected, T value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}

template <typename T>
T atomicMax(T* address, T value) {
  const std::atomic_ref<T> target(*address);
  T before = target.load(std::memory_order_relaxed);
  while (before < value && !target.compare_exchange_weak(before, value)) {
  }
  return before;
}

template <typename T>
T atomicMin(T* address, T value) {
  const std::atomic_ref<T> target(*address);
  T before = target.load(std::memory_order_relaxed);
  while (value < before && !target.compare_exchange_weak(before, value)) {
  }
  return before;
}

inline void __threadfence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

inline void __threadfence_system() {
  __threadfence();
}

inline int __popc(unsigned value) {
  return std::popcount(value);
}

inline int __ffs(int value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1;
}

inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}

inline float __uint_as_float(unsigned value) {
  return std::bit_cast<float>(value);
}

inline float rsqrtf(float x) {
  return 1.0F / sqrtf(x);
}
