// Copies to shared memory that a thread has begun (cp.async).
#pragma once

#include <cstddef>
#include <vector>

namespace cuda_shim {

// Asynchronous copies of a thread. A copy happens as late as is legal: when its thread waits for
// it. Until then its destination is filled with ones, which are NaN in every floating type, so a
// kernel that waits too late, or overwrites data that others still read, gives wrong results.
class AsyncCopies {
 public:
  // Begins a copy. The last `zeros` of `size` bytes become zeros and are not read.
  void begin(void* to, const void* from, size_t size, size_t zeros);
  // Makes a group of the copies begun since the last call.
  void commit();
  // Carries out all groups but the `latest` last ones.
  void wait(size_t latest);
  // Calls function(to, size) for every copy that wait(latest) would carry out.
  template <typename Function>
  void for_each_due(size_t latest, Function function) const {
    for (size_t i = 0; i < due(latest); ++i) {
      function(copies_[i].to, copies_[i].size);
    }
  }
  bool empty() const { return copies_.empty(); }

 private:
  struct Copy {
    void* to;
    const void* from;
    size_t size;
    size_t zeros;
  };
  size_t due(size_t latest) const {
    return groups_.size() <= latest ? 0 : groups_[groups_.size() - latest - 1];
  }
  std::vector<Copy> copies_;
  std::vector<size_t> groups_;  // the end of each in copies_
};

}  // namespace cuda_shim
