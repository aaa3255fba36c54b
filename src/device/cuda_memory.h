// Device memory and pinned host memory. For the CUDA back end only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/check.h"
#include "core/units.h"
#include "device/cuda_check.h"

namespace hidup {

template <cudaError_t (*kAllocate)(void**, size_t), cudaError_t (*kFree)(void*)>
class Memory {
 public:
  explicit Memory(int64_t bytes) : bytes_(bytes) {
    const cudaError_t error = kAllocate(&data_, static_cast<size_t>(bytes));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // clears the error for later calls
      fail(ExitCode::out_of_memory, "CUDA has no {} more", format_bytes(bytes));
    }
    check_cuda(error, "an allocation");
  }
  ~Memory() { kFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_;
};
using DeviceMemory = Memory<cudaMalloc, cudaFree>;
using PinnedMemory = Memory<cudaMallocHost, cudaFreeHost>;

// Memory for data that is used in the order of one stream. A larger request allocates a larger
// piece. The old pieces stay: earlier work may still use them, and the host must not wait.
template <typename Piece>
class Scratch {
 public:
  void* at_least(int64_t bytes) {
    const int64_t held = pieces_.empty() ? 0 : pieces_.back()->bytes();
    if (bytes > held || pieces_.empty()) {
      pieces_.push_back(std::make_unique<Piece>(std::max({bytes, 2 * held, int64_t{1} << 16})));
    }
    return pieces_.back()->data();
  }

 private:
  std::vector<std::unique_ptr<Piece>> pieces_;  // the last one is in use
};

}  // namespace hidup
