// The bytes of device memory that a kernel touches.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <vector>

#include "state.h"
#include "watch.h"

namespace cuda_shim {

class Footprint {
 public:
  explicit Footprint(const std::vector<Range>& allocations) {
    for (const Range& range : allocations) {
      parts_.push_back({reinterpret_cast<uintptr_t>(range.begin), range.bytes, {}, {}});
    }
  }

  // Returns true if an address lies in an allocation.
  bool holds(uintptr_t address) {
    if (last_ == nullptr || address - last_->begin >= last_->bytes) {
      last_ = part_at(address);
    }
    return last_ != nullptr;
  }

  // Marks bytes that lie in one sector; holds() must have returned true for them.
  void touch(uintptr_t address, int bytes, Access kind) {
    const uintptr_t offset = address - last_->begin;
    const uint32_t mask = ((1U << bytes) - 1) << offset % kSector;
    if (kind != Access::write) {
      mark(last_->read, offset, mask);
    }
    if (kind != Access::read) {
      mark(last_->written, offset, mask);
    }
  }

  int64_t bytes(bool write) const {
    int64_t sum = 0;
    for (const Part& part : parts_) {
      for (const uint32_t touched : write ? part.written : part.read) {
        sum += std::popcount(touched);
      }
    }
    return sum;
  }

 private:
  static constexpr uintptr_t kSector = 32;

  struct Part {
    uintptr_t begin;
    size_t bytes;
    std::vector<uint32_t> read;  // a bit per byte; empty until the first access
    std::vector<uint32_t> written;
  };

  void mark(std::vector<uint32_t>& touched, uintptr_t offset, uint32_t mask) const {
    if (touched.empty()) {
      touched.resize(last_->bytes / kSector + 1);
    }
    touched[offset / kSector] |= mask;
  }

  Part* part_at(uintptr_t address) {
    const auto after = std::ranges::upper_bound(parts_, address, {}, &Part::begin);
    if (after == parts_.begin() || address - std::prev(after)->begin >= std::prev(after)->bytes) {
      return nullptr;
    }
    return &*std::prev(after);
  }

  std::vector<Part> parts_;  // by address
  Part* last_ = nullptr;     // the last one found
};

}  // namespace cuda_shim
