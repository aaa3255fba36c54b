// Errors and faults, inside the shim.
#pragma once

#include <string>

#include "cuda_runtime.h"

namespace cuda_shim {

// Becomes this thread's last error; returns it.
cudaError_t set_error(cudaError_t error);

bool fault_set();
void set_fault(const std::string& text);  // the first one stays

// The stream of a null handle is one that lives as long as the process.
CudaShimStream& stream_or_default(cudaStream_t stream);

}  // namespace cuda_shim
