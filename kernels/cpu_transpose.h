// Transposition of a matrix, for CPU kernels.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/half.h"
#include "kernels/cpu_math.h"

namespace hidup::kernels {

// Eight floats, the bits of eight 16-bit elements, and of eight 32-bit elements.
using Floats8 [[gnu::vector_size(32)]] = float;
using Bits8 [[gnu::vector_size(16)]] = uint16_t;
using Words8 [[gnu::vector_size(32)]] = int32_t;

// Swaps rows[i][j] and rows[j][i], by shuffles within 16 bytes except for the last ones.
inline void transpose_block(Floats8 (&rows)[8]) {
  Floats8 mixed[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    const Floats8 a = rows[i];
    const Floats8 b = rows[i + 1];
    mixed[i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
    mixed[i + 1] = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const int first = i / 4 * 4 + i % 4 / 2;  // pairs of rows 0 and 2, 1 and 3 of four
    const Floats8 a = mixed[first];
    const Floats8 b = mixed[first + 2];
    rows[i] = i % 2 == 0 ? __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
                         : __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    const Floats8 a = rows[i];
    const Floats8 b = rows[i + 4];
    mixed[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    mixed[i + 4] = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  }
  std::copy_n(mixed, 8, rows);
}

template <typename Element>
Floats8 load8(const Element* from) {
  Floats8 to = {};
  if constexpr (std::is_same_v<Element, float>) {
    std::memcpy(&to, from, sizeof(to));
  } else if constexpr (std::is_same_v<Element, BFloat16>) {  // like widen(), which is slow here
    Bits8 bits;
    std::memcpy(&bits, from, sizeof(bits));
    to = std::bit_cast<Floats8>(__builtin_convertvector(bits, Words8) << 16);
  } else {
    widen(from, 8, reinterpret_cast<float*>(&to));
  }
  return to;
}

// Writes to[8, 8], rows `to_stride` apart: transposed rows first .. first + 7, from `column` on.
template <typename RowOf>
void transpose_block(const RowOf& row_of, int64_t first, int64_t column, float* to,
                     int64_t to_stride) {
  Floats8 block[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    block[i] = load8(row_of(first + i) + column);
  }
  transpose_block(block);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    std::memcpy(to + i * to_stride, &block[i], sizeof(Floats8));
  }
}

// Writes to[rows, columns], dense: the transpose of [columns, rows], as floats. row_of(i): row i.
template <typename RowOf>
void transpose(const RowOf& row_of, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kLine = 64 / sizeof(*row_of(0));  // elements of a cache line, read together
  const int64_t whole_rows = rows / 8 * 8;
  const int64_t whole_columns = columns / 8 * 8;
  for (int64_t line = 0; line < whole_rows; line += kLine) {
    for (int64_t column = 0; column < whole_columns; column += 8) {
      for (int64_t row = line; row < std::min(line + kLine, whole_rows); row += 8) {
        transpose_block(row_of, column, row, to + row * columns + column, columns);
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = row < whole_rows ? whole_columns : 0; column < columns; ++column) {
      to[row * columns + column] = row_of(column)[row];
    }
  }
}

}  // namespace hidup::kernels
