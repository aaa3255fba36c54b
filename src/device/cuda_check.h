// Checks of CUDA runtime calls. For the CUDA back end only.
#pragma once

#include <cuda_runtime.h>

namespace hidup {

// Throws Error(internal) with the call and CUDA's text for the error: after an error nothing in
// device memory can be trusted. Not inline, because nvcc 13 does not understand fmt 9's formats.
[[noreturn]] void fail_cuda(cudaError_t error, const char* call);

inline void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    fail_cuda(error, call);
  }
}

}  // namespace hidup
