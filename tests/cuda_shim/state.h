// Errors and faults, inside the shim.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace cuda_shim {

// Makes `error` this thread's last error and returns it.
cudaError_t set_error(cudaError_t error);

bool fault_set();
void set_fault(const std::string& text);  // keeps the first one

// Returns true if all these bytes lie in one allocation of the device, not in pinned host memory.
bool device_holds(const void* data, size_t bytes);
// Writes this call of the runtime to the file of CUDA_SHIM_NVTX, within the open ranges.
void trace(const char* call);

// Returns all allocations of the device, by address.
struct Range {
  const std::byte* begin;
  size_t bytes;
};
std::vector<Range> device_ranges();

// Returns the dynamic memory that a launch may use: 48 KiB, or the limit of cudaFuncSetAttribute().
size_t most_dynamic_memory(const void* kernel);

// While an instance lives, kernels, copies and products can reach device memory. Otherwise, if the
// environment variable CUDA_SHIM_PROTECT is set, an access ends with SIGSEGV: a host that reads or
// writes the memory itself, as no host of a GPU can. (Host accesses go unnoticed while a device
// works.)
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// Returns the stream; a null handle stands for one that lives as long as the process.
CudaShimStream& stream_or_default(cudaStream_t stream);

}  // namespace cuda_shim
