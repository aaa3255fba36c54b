#include "async_copies.h"

#include <cstring>

namespace cuda_shim {

void AsyncCopies::begin(void* to, const void* from, size_t size, size_t zeros) {
  std::memset(to, 0xFF, size);
  copies_.push_back({to, from, size, zeros});
}

void AsyncCopies::commit() {
  groups_.push_back(copies_.size());
}

void AsyncCopies::wait(size_t latest) {
  if (groups_.size() <= latest) {
    return;
  }
  const auto last = groups_.end() - static_cast<std::ptrdiff_t>(latest) - 1;
  const size_t done = due(latest);
  for (size_t i = 0; i < done; ++i) {
    const Copy& copy = copies_[i];
    const size_t read = copy.size - copy.zeros;
    if (read > 0) {
      std::memcpy(copy.to, copy.from, read);
    }
    std::memset(static_cast<std::byte*>(copy.to) + read, 0, copy.zeros);
  }
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(done));
  groups_.erase(groups_.begin(), last + 1);
  for (size_t& end : groups_) {
    end -= done;
  }
}

}  // namespace cuda_shim
