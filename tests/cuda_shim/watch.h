// What looks on while a kernel runs, inside the shim: in programs with hooks.cpp, and in no others.
#pragma once

#include <cstddef>
#include <memory>

#include "block.h"

namespace cuda_shim {

enum class Access { read, write, atomic };

// Of one launch. `instruction` is an address in the kernel's code.
class Watch {
 public:
  virtual ~Watch() = default;

  // 1, 2, 4, 8 or 16 bytes; more are accessed in parts, by one instruction.
  virtual void access(const void* instruction, const void* address, int bytes, Access kind,
                      int part) = 0;
  // An asynchronous copy that writes: when it began, it was an access.
  virtual void land(const void* instruction, const void* to, int bytes) = 0;
  // Lanes of a warp are in one operation; __syncwarp orders what they do with memory.
  virtual void meet(int warp, unsigned mask, bool orders) = 0;
  // All threads of the block are at a barrier, or have ended.
  virtual void meet_all() = 0;
  // All blocks have run.
  virtual void end() = 0;

  int thread = 0;  // of the block, that runs
};

// How a watch is made; `dynamic` is where the block's dynamic shared memory begins.
using MakeWatch = std::unique_ptr<Watch> (*)(const KernelLaunch& launch, const std::byte* dynamic);
void watch_kernels(MakeWatch make);

// Of the block that runs on this OS thread; null where there is none.
inline constinit thread_local Watch* watching = nullptr;

}  // namespace cuda_shim
