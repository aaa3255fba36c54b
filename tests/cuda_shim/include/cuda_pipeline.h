// Stands in for CUDA's <cuda_pipeline.h>: copies to shared memory while a block computes (CUDA C++
// Programming Guide, "Pipeline Primitives Interface"). See async_copies.h.
#pragma once

#include <cstddef>

namespace cuda_shim {

void begin_copy(void* to, const void* from, size_t size, size_t zeros);
void commit_copies();
void wait_for_copies(size_t latest);

}  // namespace cuda_shim

inline void __pipeline_memcpy_async(void* to, const void* from, size_t size, size_t zfill = 0) {
  cuda_shim::begin_copy(to, from, size, zfill);
}

inline void __pipeline_commit() {
  cuda_shim::commit_copies();
}

inline void __pipeline_wait_prior(size_t latest) {
  cuda_shim::wait_for_copies(latest);
}
