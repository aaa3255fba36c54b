// Copies to shared memory that a thread has begun (cp.async).
#pragma once

#include <cstddef>
#include <vector>

namespace cuda_shim {

// A copy is carried out as late as is legal: when its thread waits for it. Until then what it
// overwrites is filled with ones, which are NaN in every floating type: so a kernel that waits too
// late, or copies to what others still read, gives wrong results.
class AsyncCopies {
 public:
  // The last `zeros` of `size` bytes become zeros and are not read.
  void begin(void* to, const void* from, size_t size, size_t zeros);
  // What was begun since the last call becomes a group.
  void commit();
  // Carries out all groups but the latest.
  void wait(size_t latest);
  bool empty() const { return copies_.empty(); }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t size;
    size_t zeros;
  };
  std::vector<Copy> copies_;
  std::vector<size_t> groups_;  // where each ends in copies_
};

}  // namespace cuda_shim
