// The size of elements and their sum in collectives. For the sources of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"

namespace hidup {

struct Elements {
  int64_t bytes;  // of one element
  // sum: [count], the sum of two or more summands of [count] in their order; it may be one of them.
  // 16-bit elements are added in float and rounded once.
  void (*sum)(void* sum, std::span<const void* const> summands, int64_t count);
};

// Throws Error(internal) for integer types.
Elements summed_elements(DType dtype);

// Returns the address of element i, for elements of `bytes` bytes; null if `data` is null.
inline std::byte* at(void* data, int64_t i, int64_t bytes) {
  return data == nullptr ? nullptr : static_cast<std::byte*>(data) + i * bytes;
}
inline const std::byte* at(const void* data, int64_t i, int64_t bytes) {
  return data == nullptr ? nullptr : static_cast<const std::byte*>(data) + i * bytes;
}

void copy_now(void* to, const void* from, int64_t count, int64_t bytes);

}  // namespace hidup
