// Stands in for CUDA's <cuda_runtime.h>: lets the host compiler build .cu files and code that calls
// the CUDA runtime, and runs both on the CPU. It has only the parts that hidup uses, with names and
// meanings of the CUDA Runtime API and the CUDA C++ Programming Guide.
#pragma once

#include "cuda_shim/device_code.h"  // IWYU pragma: export
#include "cuda_shim/runtime_api.h"  // IWYU pragma: export
