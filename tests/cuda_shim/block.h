// Runs the blocks of a kernel on the calling OS thread, one after the other, the threads of a block
// as fibers.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>

#include "cuda_shim/vector_types.h"

namespace cuda_shim {

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Blocks, and warps and lanes within them, take turns in an order that `launch` decides, forwards
// or backwards from any of them on, so that a kernel that needs one order fails in another. Throws
// Fault.
void run_kernel(const std::function<void()>& kernel, dim3 grid, dim3 block, uint64_t launch);

}  // namespace cuda_shim
