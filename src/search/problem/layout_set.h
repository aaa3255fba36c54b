// A set of layouts of a tensor's readers, by their numbers.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "search/problem/problem.h"

namespace hidup {

class LayoutSet {
 public:
  // Requires 0 <= layout < kMostLayouts.
  bool has(int layout) const { return (word(layout) & bit(layout)) != 0; }
  void add(int layout) { words_[static_cast<size_t>(layout) / kBits] |= bit(layout); }

  LayoutSet& operator|=(const LayoutSet& other) {
    for (size_t w = 0; w < words_.size(); ++w) {
      words_[w] |= other.words_[w];
    }
    return *this;
  }
  // Removes the layouts for which keep(layout) is false.
  template <typename Keep>
  void keep_if(Keep keep) {
    for_each([&](int layout) {
      if (!keep(layout)) {
        words_[static_cast<size_t>(layout) / kBits] &= ~bit(layout);
      }
    });
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t left = words_[w]; left != 0; left &= left - 1) {
        visit(static_cast<int>(w * kBits) + std::countr_zero(left));
      }
    }
  }
  auto operator<=>(const LayoutSet&) const = default;

 private:
  static constexpr size_t kBits = 64;
  static_assert(kMostLayouts % kBits == 0);

  static uint64_t bit(int layout) { return uint64_t{1} << (static_cast<size_t>(layout) % kBits); }
  uint64_t word(int layout) const { return words_[static_cast<size_t>(layout) / kBits]; }

  std::array<uint64_t, kMostLayouts / kBits> words_{};
};

}  // namespace hidup
