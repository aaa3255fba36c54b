// Rows that a group of threads, a warp or a block, reads several times. For CUDA kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda_elements.h"

namespace hidup::kernels {

inline constexpr int kHeldVectors = 4;  // 16-byte vectors of a row that a thread holds

// Returns the same vector, hidden from the optimizer: otherwise the compiler holds the floats that
// it made of 16-bit elements for reuse, in twice the registers.
template <typename V>
__device__ V packed(V vector) {
#ifdef __CUDA_ARCH__
  auto words = __builtin_bit_cast(uint4, vector);
  asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
  vector = __builtin_bit_cast(V, words);
#endif
  return vector;
}

// A row of n elements, a multiple of a vector's, which is read once, into registers.
template <typename T, int kThreadsOfGroup>
class HeldRow {
 public:
  using Element = T;
  using V = Vector<T>;
  static constexpr bool kHeld = true;
  static constexpr int kGroup = kThreadsOfGroup;
  static constexpr int kCount = kPerVector<T>;  // neighbours that a thread reads at once
  static constexpr int kLongest = kHeldVectors * kCount * kGroup;

  __device__ HeldRow(const T* row, int64_t n) : n_(static_cast<int>(n)) {
    HIDUP_UNROLL for (int i = 0; i < kHeldVectors; ++i) {
      if (at(i) < n_) {
        vector_[i] = load_vector(row + at(i));
      }
    }
  }

  // Calls use(i, j, elements j .. of this row, those of the others) for the vectors i = 0, 1, ...
  // of this thread.
  template <typename Use, typename... Others>
  __device__ void each(Use use, const Others&... others) {
    HIDUP_UNROLL for (int i = 0; i < kHeldVectors; ++i) {
      if (at(i) < n_) {
        vector_[i] = packed(vector_[i]);
        use(i, at(i), vector_[i], packed(others.vector_[i])...);
      }
    }
  }
  template <typename Use, typename... Others>
  __device__ void each(Use use, const Others&... others) const {
    HIDUP_UNROLL for (int i = 0; i < kHeldVectors; ++i) {
      if (at(i) < n_) {
        use(i, at(i), packed(vector_[i]), packed(others.vector_[i])...);
      }
    }
  }

 private:
  __device__ static int at(int i) {
    return kCount * (static_cast<int>(threadIdx.x) % kGroup + i * kGroup);
  }

  int n_;
  V vector_[kHeldVectors];
};

// A row of any length at any address, which is read each time, element by element.
template <typename T, int kThreadsOfGroup>
class ReadRow {
 public:
  using Element = T;
  using V = Vector<T, 1>;
  static constexpr bool kHeld = false;
  static constexpr int kGroup = kThreadsOfGroup;
  static constexpr int kCount = 1;

  __device__ ReadRow(const T* row, int64_t n) : row_(row), n_(n) {}

  template <typename Use, typename... Others>
  __device__ void each(Use use, const Others&... others) const {
    for (int64_t j = threadIdx.x % kGroup; j < n_; j += kGroup) {
      use(0, j, V{row_[j]}, V{others.row_[j]}...);
    }
  }

 private:
  const T* row_;
  int64_t n_;
};

// Returns the sum of function(x) over the elements of a row to all threads of the group.
template <typename Row, typename Function>
__device__ float sum_of_row(const Row& row, Function function) {
  float sum = 0.0F;
  row.each([&](int, int64_t, const typename Row::V& x) {
    for (int e = 0; e < Row::kCount; ++e) {
      sum += function(widen(x.element[e]));
    }
  });
  return group_reduce<Row::kGroup>(sum, Sum{});
}

// Calls visit() with the class for rows of n elements: in registers if all addresses allow it.
template <typename Element, typename Visit>
void with_row_class(int64_t n, bool aligned, Visit visit) {
  constexpr int64_t kShort = 1024;  // elements of a row that one warp rereads
  using ByWarp = HeldRow<Element, kWarp>;
  using ByBlock = HeldRow<Element, kThreads>;
  const bool vectors = aligned && n % ByWarp::kCount == 0;
  if (vectors && n <= ByWarp::kLongest) {
    visit(std::type_identity<ByWarp>{});
  } else if (vectors && n <= ByBlock::kLongest) {
    visit(std::type_identity<ByBlock>{});
  } else if (n <= kShort) {
    visit(std::type_identity<ReadRow<Element, kWarp>>{});
  } else {
    visit(std::type_identity<ReadRow<Element, kThreads>>{});
  }
}

// Returns blocks of kThreads for so many rows.
template <typename Row>
dim3 blocks_of_rows(int64_t rows) {
  return grid_of(ceil_div(rows, kThreads / Row::kGroup));
}

}  // namespace hidup::kernels
