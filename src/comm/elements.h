// What collectives know of elements: their size, and how they are summed. For the sources of this
// folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace hidup {

struct Elements {
  int64_t bytes;  // of one
  // sum: [count], of the summands in their order, two or more of [count]; it may be one of them.
  // Elements of 16 bits are added in float and rounded once.
  void (*sum)(void* sum, std::span<const void* const> summands, int64_t count);
};

// Throws Error(internal) of integers.
Elements summed_elements(DType dtype);

// Element i of elements with that many bytes; null where there are none.
inline std::byte* at(void* data, int64_t i, int64_t bytes) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + i * bytes;
}
inline const std::byte* at(const void* data, int64_t i, int64_t bytes) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + i * bytes;
}

void copy_now(void* to, const void* from, int64_t count, int64_t bytes);

}  // namespace hidup
