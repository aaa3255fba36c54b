// Names on the time line that a profiler shows of the host's threads.
#pragma once

#include <string>

namespace hidup {

// What the calling thread does between construction and destruction, which are both its own; ranges
// of a thread nest. With CUDA: an NVTX range of the domain hidup, as Nsight Systems shows it, with
// the GPU's work that the thread gave meanwhile. On a CPU: nothing.
class NamedRange {
 public:
  explicit NamedRange(const std::string& name);
  // With CUDA it does something.
  ~NamedRange();  // NOLINT(performance-trivially-destructible)
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
};

}  // namespace hidup
