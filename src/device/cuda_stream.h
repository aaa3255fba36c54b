// The interface of streams for kernels. For the CUDA back end only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/device.h"

namespace hidup {

class CudaStream : public Stream {
 public:
  virtual cudaStream_t handle() const = 0;
  // Returns device memory, aligned to kAlignment, in which work of this stream leaves data for the
  // work enqueued next. Later calls may return the same memory. Its contents are undefined.
  virtual void* scratch(int64_t bytes) = 0;
};

// Every stream of this back end is a CudaStream.
inline CudaStream& cuda_stream(Stream& stream) {
  return static_cast<CudaStream&>(stream);
}

}  // namespace hidup
