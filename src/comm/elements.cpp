#include "comm/elements.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/with_type.h"

namespace hidup {
namespace {

constexpr int64_t kBlock = 1024;  // floats that stay in the L1 cache

template <typename T>
void sum_of_two(T* sum, const T* a, const T* b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    sum[i] = a[i] + b[i];
  }
}

template <typename T>
void sum_of_many(T* sum, std::span<const void* const> summands, int64_t count) {
  std::array<float, kBlock> block;
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t length = std::min(kBlock, count - done);
    std::copy_n(static_cast<const T*>(summands[0]) + done, length, block.begin());
    for (const void* const summand : summands.subspan(1)) {
      const T* const from = static_cast<const T*>(summand) + done;
      for (int64_t i = 0; i < length; ++i) {
        block[static_cast<size_t>(i)] += from[i];
      }
    }
    for (int64_t i = 0; i < length; ++i) {
      sum[done + i] = block[static_cast<size_t>(i)];
    }
  }
}

template <typename T>
void sum_elements(void* sum, std::span<const void* const> summands, int64_t count) {
  if (summands.size() == 2) {
    sum_of_two(static_cast<T*>(sum), static_cast<const T*>(summands[0]),
               static_cast<const T*>(summands[1]), count);
  } else {
    sum_of_many(static_cast<T*>(sum), summands, count);
  }
}

}  // namespace

Elements summed_elements(DType dtype) {
  return with_floating_type(dtype, [&](auto zero) {
    return Elements{.bytes = size_of(dtype), .sum = sum_elements<decltype(zero)>};
  });
}

void copy_now(void* to, const void* from, int64_t count, int64_t bytes) {
  if (to != from) {
    std::copy_n(static_cast<const std::byte*>(from), count * bytes, static_cast<std::byte*>(to));
  }
}

}  // namespace hidup
