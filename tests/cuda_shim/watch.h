// Observers of a running kernel, inside the shim, in programs with hooks.cpp only.
#pragma once

#include <cstddef>
#include <memory>

#include "block.h"

namespace cuda_shim {

enum class Access { read, write, atomic };

// Observes one launch. `instruction` is an address in the kernel's code.
class Watch {
 public:
  virtual ~Watch() = default;

  // Called for an access of 1, 2, 4, 8 or 16 bytes; an instruction accesses more in parts.
  virtual void access(const void* instruction, const void* address, int bytes, Access kind,
                      int part) = 0;
  // Called when an asynchronous copy writes; its begin was an access.
  virtual void land(const void* instruction, const void* to, int bytes) = 0;
  // Called when lanes of a warp meet in an operation; __syncwarp orders their accesses.
  virtual void meet(int warp, unsigned mask, bool orders) = 0;
  // Called when all threads of the block are at a barrier or have ended.
  virtual void meet_all() = 0;
  // Called when all blocks have run.
  virtual void end() = 0;

  int thread = 0;  // the running one, in its block
};

// Makes a watch; `dynamic` is the start of the block's dynamic shared memory.
using MakeWatch = std::unique_ptr<Watch> (*)(const KernelLaunch& launch, const std::byte* dynamic);
void watch_kernels(MakeWatch make);

// The watch of the block on this OS thread; null where there is none.
inline constinit thread_local Watch* watching = nullptr;

}  // namespace cuda_shim
