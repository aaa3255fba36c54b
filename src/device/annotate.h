// Named ranges of host threads on a profiler's timeline.
#pragma once

#include <string>

namespace hidup {

// Names the work of the calling thread between construction and destruction, both on that thread.
// The ranges of a thread nest. With CUDA: an NVTX range of the domain hidup, which Nsight Systems
// shows with the GPU work that the thread launched meanwhile. On a CPU: does nothing.
class NamedRange {
 public:
  explicit NamedRange(const std::string& name);
  // The destructor has work to do with CUDA.
  ~NamedRange();  // NOLINT(performance-trivially-destructible)
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace hidup
