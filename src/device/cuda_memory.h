// Inside the CUDA back end: memory of the device, and memory of the host that is pinned.
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
      cudaGetLastError();  // not to be met again by a later call
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

// Memory for what passes in the order of one stream. Where more is needed, a larger piece takes its
// place; work given before may still use the old ones, which stay: no host waits here.
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
  std::vector<std::unique_ptr<Piece>> pieces_;  // the last is in use
};

}  // namespace hidup
