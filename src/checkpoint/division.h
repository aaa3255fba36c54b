// Division of tensors among the ranks that write them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace hidup {

// The part of a tensor that one rank writes: elements first .. first + count of its box, and their
// place in all bytes that the rank writes.
struct Part {
  size_t tensor = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t at = 0;
};

// The share of one rank.
struct Share {
  std::vector<Part> parts;  // by `at`, which is a multiple of kPartAlignment
  int64_t bytes = 0;
};

inline constexpr int64_t kPartAlignment = 64;

// Divides boxes[rank][tensor] so that every element has one writer. Of a small box that several
// ranks hold, the rank with the least bytes so far is the writer; large ones are cut at multiples
// of a block. Throws Error(internal) where the boxes of a tensor overlap or do not fill it.
std::vector<Share> divide(const std::vector<StoredTensor>& tensors,
                          const std::vector<std::vector<Region>>& boxes);

}  // namespace hidup
