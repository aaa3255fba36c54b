// A thread of a block, inside the shim, and its description in reports.
#pragma once

#include <fmt/core.h>

#include <boost/context/fiber.hpp>
#include <cstdint>
#include <string>

#include "async_copies.h"
#include "cuda_shim/device_code.h"

namespace cuda_shim {

enum class State { ready, at_barrier, in_warp, done };

// A thread of the block.
struct Thread {
  int number = 0;  // in the block
  uint3 index{};
  State state = State::ready;
  boost::context::fiber self;    // the point to resume at while it waits
  boost::context::fiber caller;  // the scheduler's, while it runs
  bool predicate = false;
  // The thread's arguments of a warp operation; `value` becomes the result.
  WarpOperation operation = WarpOperation::sync;
  unsigned mask = 0;
  int source = 0;
  uint64_t value = 0;
  AsyncCopies copies;
  bool stopped = false;  // by stop_kernel()
};

inline const char* name_of(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::sync:
      return "__syncwarp";
    case WarpOperation::shuffle:
      return "a shuffle";
    case WarpOperation::ballot:
      return "a vote";
  }
  return "";
}

inline std::string name_of(const Thread& thread) {
  return fmt::format("thread ({},{},{}) of block ({},{},{})", thread.index.x, thread.index.y,
                     thread.index.z, blockIdx.x, blockIdx.y, blockIdx.z);
}

// Returns the thread's name and the place where it is.
inline std::string describe(const Thread& thread) {
  const std::string where = name_of(thread);
  switch (thread.state) {
    case State::ready:
      return fmt::format("{}, in {},", where, name_of(thread.operation));
    case State::at_barrier:
      return where + " waits at __syncthreads";
    case State::in_warp:
      return fmt::format("{} waits in {} with mask {:#010x}", where, name_of(thread.operation),
                         thread.mask);
    case State::done:
      return where + " has returned";
  }
  return where;
}

}  // namespace cuda_shim
