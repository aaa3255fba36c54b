// Inside the CPU kernels: one matrix product on the calling thread.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

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
void gemm_floats(int64_t m, int64_t n, int64_t k, ConstMatrix<float> a, ConstMatrix<float> b,
                 float beta, float* c, int64_t c_stride) noexcept;

// The matrix as floats: itself, or a copy in `memory`. It has `rows` rows as it is stored.
template <typename Element>
ConstMatrix<float> as_floats(ConstMatrix<Element> matrix, int64_t rows, int64_t columns,
                             std::vector<float>& memory) {
  if constexpr (std::is_same_v<Element, float>) {
    return matrix;
  } else {
    float* const copy = scratch(memory, rows * columns);
    for (int64_t row = 0; row < rows; ++row) {
      widen(matrix.data + row * matrix.stride, columns, copy + row * columns);
    }
    return {.data = copy, .stride = columns, .transposed = matrix.transposed};
  }
}

// The same for any elements. Operands are converted to float first, which takes little time
// beside the product of a tile as large as matmul()'s. Products and sums are in float, and c is
// rounded once.
template <typename A, typename B, typename C>
void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<A> a, ConstMatrix<B> b, float beta, C* c,
          int64_t c_stride) noexcept {
  thread_local std::vector<float> of_a;
  thread_local std::vector<float> of_b;
  const ConstMatrix<float> left = as_floats(a, a.transposed ? k : m, a.transposed ? m : k, of_a);
  const ConstMatrix<float> right = as_floats(b, b.transposed ? n : k, b.transposed ? k : n, of_b);
  if constexpr (std::is_same_v<C, float>) {
    gemm_floats(m, n, k, left, right, beta, c, c_stride);
  } else {
    thread_local std::vector<float> of_c;
    float* const product = scratch(of_c, m * n);
    gemm_floats(m, n, k, left, right, 0.0F, product, n);
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t j = 0; j < n; ++j) {
        const float before = beta == 0.0F ? 0.0F : beta * c[row * c_stride + j];
        c[row * c_stride + j] = product[row * n + j] + before;
      }
    }
  }
}

}  // namespace hidup::kernels
