// Errors and faults, inside the shim.
#pragma once

#include <cstddef>
#include <string>

#include "cuda_runtime.h"

namespace cuda_shim {

// Becomes this thread's last error; returns it.
cudaError_t set_error(cudaError_t error);

bool fault_set();
void set_fault(const std::string& text);  // the first one stays

// Whether all these bytes lie in one allocation of the device; pinned memory of the host does not.
bool device_holds(const void* data, size_t bytes);

// The stream of a null handle is one that lives as long as the process.
CudaShimStream& stream_or_default(cudaStream_t stream);

}  // namespace cuda_shim
