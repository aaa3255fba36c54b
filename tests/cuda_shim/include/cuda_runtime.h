// Stands in for CUDA's <cuda_runtime.h>: lets the host compiler build .cu files and code that
// calls the CUDA runtime, and runs both on the CPU. Only what hidup uses is here. Names and
// meanings are those of the CUDA Runtime API and the CUDA C++ Programming Guide.
#pragma once

#include "cuda_shim/device_code.h"  // IWYU pragma: export
#include "cuda_shim/runtime_api.h"  // IWYU pragma: export
