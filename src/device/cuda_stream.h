// Inside the CUDA back end: what kernels need of a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/device.h"

namespace hidup {

class CudaStream : public Stream {
 public:
  virtual cudaStream_t handle() const = 0;
  // Memory of the device for what work of this stream leaves to the work given right after it,
  // aligned to kAlignment; whoever calls next gets the same. Its contents are undefined.
  virtual void* scratch(int64_t bytes) = 0;
};

// Every stream of this back end is a CudaStream.
inline CudaStream& cuda_stream(Stream& stream) {
  return static_cast<CudaStream&>(stream);
}

}  // namespace hidup
