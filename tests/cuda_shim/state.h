// Errors and faults, inside the shim.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cuda_runtime.h"

namespace cuda_shim {

// Becomes this thread's last error; returns it.
cudaError_t set_error(cudaError_t error);

bool fault_set();
void set_fault(const std::string& text);  // the first one stays

// Whether all these bytes lie in one allocation of the device; pinned memory of the host does not.
bool device_holds(const void* data, size_t bytes);
// A line in what CUDA_SHIM_NVTX asks for: this call of the runtime, within the ranges that are
// open.
void trace(const char* call);

// All allocations of the device, by address.
struct Range {
  const std::byte* begin;
  size_t bytes;
};
std::vector<Range> device_ranges();

// That a launch of the kernel may ask for: 48 KiB, or what cudaFuncSetAttribute() allowed.
size_t most_dynamic_memory(const void* kernel);

// While one lives, memory of the device can be reached: by kernels, copies and products. Otherwise,
// where the environment variable CUDA_SHIM_PROTECT is set, who touches it ends with SIGSEGV: a host
// that reads or writes it itself, as no host of a GPU can. (While a device works the host is not
// noticed.)
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// The stream of a null handle is one that lives as long as the process.
CudaShimStream& stream_or_default(cudaStream_t stream);

}  // namespace cuda_shim
