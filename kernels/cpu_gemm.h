// Inside the CPU kernels: one matrix product on the calling thread, and copies of its operands.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/half.h"
#include "kernels/cpu_math.h"

namespace hidup::kernels {

// A row-major matrix: rows are `stride` elements apart.
template <typename Element>
struct ConstMatrix {
  const Element* data;
  int64_t stride;
  bool transposed = false;
};

// c[m,n] = op(a) op(b) + beta * c. Called inside a parallel region it computes on the
// calling thread alone, so that its rounding does not depend on the team: oneDNN would
// otherwise split long sums among the threads. It fails only if memory for packing is missing.
// That ends the process, because no exception may leave a parallel region.
void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<float> a, ConstMatrix<float> b, float beta,
          float* c, int64_t c_stride) noexcept;

// to[rows, columns], dense: the transpose of from[columns, rows], whose rows are `stride` elements
// apart. Element: float or BFloat16.
template <typename Element>
void transpose(const Element* from, int64_t stride, int64_t rows, int64_t columns,
               float* to) noexcept;

// to[rows, columns] = op(matrix), as floats and dense.
template <typename Element>
void pack(ConstMatrix<Element> matrix, int64_t rows, int64_t columns, float* to) {
  if (!matrix.transposed) {
    for (int64_t row = 0; row < rows; ++row) {
      widen(matrix.data + row * matrix.stride, columns, to + row * columns);
    }
  } else if constexpr (std::is_same_v<Element, Float16>) {  // not known to oneDNN
    thread_local std::vector<float> memory;
    float* const floats = scratch(memory, rows * columns);
    pack(ConstMatrix<Element>{.data = matrix.data, .stride = matrix.stride}, columns, rows, floats);
    transpose(floats, rows, rows, columns, to);
  } else {
    transpose(matrix.data, matrix.stride, rows, columns, to);
  }
}

}  // namespace hidup::kernels
