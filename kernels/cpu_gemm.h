// A matrix product on the calling thread, and copies of its operands, for CPU kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/cpu_transpose.h"

namespace hidup::kernels {

// A row-major matrix: rows are `stride` elements apart.
template <typename Element>
struct ConstMatrix {
  const Element* data;
  int64_t stride;
  bool transposed = false;
};

// A row-major matrix as stored, of which some rows are used.
template <typename Element>
struct RowMajor {
  const Element* data;
  int64_t stride;
  const int64_t* places = nullptr;  // indices of the rows in use; null: all rows

  const Element* row(int64_t index) const {
    return data + (places != nullptr ? places[index] : index) * stride;
  }
};

// c[m,n] = op(a) op(b) + beta * c. Inside a parallel region it computes on the calling thread
// alone, so that its rounding does not depend on the team: oneDNN would otherwise split long sums
// among the threads. It fails only if memory for packing is missing, which ends the process,
// because no exception may leave a parallel region.
void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<float> a, ConstMatrix<float> b, float beta,
          float* c, int64_t c_stride) noexcept;

// Does the same for bf16 with the CPU's own instructions, if it has them (arithmetic.h).
void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<BFloat16> a, ConstMatrix<BFloat16> b,
          float beta, float* c, int64_t c_stride) noexcept;
// Returns the library's name of that implementation: "brg:avx512_core_amx_bf16".
std::string name_of_bf16_gemm();

// Copies to to[rows, columns], dense: rows of the matrix from `row` on and columns from `column`
// on, as floats or as stored.
template <typename Element, typename Copied>
void pack(const RowMajor<Element>& matrix, int64_t row, int64_t column, int64_t rows,
          int64_t columns, Copied* to) {
  for (int64_t i = 0; i < rows; ++i) {
    const Element* const from = matrix.row(row + i) + column;
    if constexpr (std::is_same_v<Element, Copied>) {
      std::copy_n(from, columns, to + i * columns);
    } else {
      widen(from, columns, to + i * columns);
    }
  }
}

// Copies the transpose of that part as floats: to[columns, rows].
template <typename Element>
void pack_transposed(const RowMajor<Element>& matrix, int64_t row, int64_t column, int64_t rows,
                     int64_t columns, float* to) {
  transpose([&](int64_t i) { return matrix.row(row + i) + column; }, columns, rows, to);
}

}  // namespace hidup::kernels
