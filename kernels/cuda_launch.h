// Launches and their grid sizes, for CUDA kernels.
//
// Plain templates replace <<< >>>, so that host compilers read the same sources (tests/cuda_shim).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/host_device.h"
#include "device/cuda_check.h"
#include "device/cuda_stream.h"
#include "device/device.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

inline constexpr int kThreads = 256;  // of a block, unless a kernel says otherwise
inline constexpr int kWarp = 32;

HIDUP_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Returns the number of multiprocessors of the device.
inline int multiprocessors() {
  int device = 0;
  int count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
             "cudaDeviceGetAttribute");
  return count;
}

// Returns the number of blocks for `work` items, `per_block` of them at a time. At most 16 blocks
// per multiprocessor, so kernels step through their grids: for (i = first; i < work; i += all).
inline unsigned blocks_for(int64_t work, int64_t per_block) {
  static const int64_t most = int64_t{16} * multiprocessors();
  const int64_t blocks = ceil_div(work, per_block);
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

// Returns a grid of x times y blocks; checks CUDA's limits.
inline dim3 grid_of(int64_t x, int64_t y = 1) {
  check_at_most("blocks along x", x, INT32_MAX);
  check_at_most("blocks along y", y, 65535);
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
}

// Runs kernel(arguments...) in stream order, every block with so many bytes of dynamic shared
// memory; does nothing if the grid is empty.
template <typename... Parameters, typename... Arguments>
void launch_with_memory(Stream& stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                        int bytes, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return;
  }
  constexpr int kUnasked = 48 * 1024;
  if (bytes > kUnasked) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "cudaFuncSetAttribute");
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = cuda_stream(stream).handle();
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
             "the launch of a kernel");
}

// Does the same without such memory.
template <typename... Parameters, typename... Arguments>
void launch(Stream& stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            Arguments... arguments) {
  launch_with_memory(stream, kernel, grid, block, 0, arguments...);
}

// Sets `bytes` bytes in stream order.
inline void fill_bytes(Stream& stream, void* data, int value, int64_t bytes) {
  check_cuda(cudaMemsetAsync(data, value, static_cast<size_t>(bytes), cuda_stream(stream).handle()),
             "cudaMemsetAsync");
}

}  // namespace hidup::kernels
