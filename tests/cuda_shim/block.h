// Runs the blocks of a kernel on the calling OS thread, one after the other, with the threads of a
// block as fibers.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "cuda_shim/vector_types.h"

namespace cuda_shim {

class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct KernelLaunch {
  const void* kernel;         // its address
  std::function<void()> run;  // kernel(arguments...)
  dim3 grid;
  dim3 block;
  size_t dynamic_bytes;  // of shared memory
};

// Runs a kernel. Blocks, and warps and lanes within them, take turns in a pseudorandom order that
// `number` decides, so that a kernel that relies on one order fails in another. Throws Fault.
void run_kernel(const KernelLaunch& launch, uint64_t number);

// Returns a name such as "thread (1,0,0) of block (2,0,0)", in the running block.
std::string name_of_thread(int number);

// Ends the kernel in the running thread. Its stack is not unwound, because it may have functions
// that no exception can pass.
[[noreturn]] void stop_kernel(std::string fault);

}  // namespace cuda_shim
