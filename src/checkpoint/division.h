// Which rank writes what.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace hidup {

// What one rank writes of a tensor: elements first .. first + count of its box, and where they lie
// in the bytes that it writes in all.
struct Part {
  size_t tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t at = 0;
};

// Of one rank.
struct Share {
  std::vector<Part> parts;  // by `at`, which is a multiple of kPartAlignment
  int64_t bytes = 0;
};

inline constexpr int64_t kPartAlignment = 64;

// boxes[rank][tensor]. Every element gets one writer: small boxes that several ranks hold go to the
// one with the least to write so far, and large ones are cut, at multiples of a block. Throws
// Error(internal) where the boxes of a tensor overlap or do not fill it.
std::vector<Share> divide(const std::vector<StoredTensor>& tensors,
                          const std::vector<std::vector<Region>>& boxes);

}  // namespace hidup
