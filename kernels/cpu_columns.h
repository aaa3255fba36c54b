// Sums over rows with a rounding that does not depend on the team, for CPU kernels.
//
// The row count alone decides the blocks of rows. Each block has a partial sum, and the partial
// sums are added in order.
#pragma once

#include <cstdint>

#include "kernels/cpu_math.h"

namespace hidup::kernels {

struct RowBlocks {
  int64_t rows;
  int64_t size;  // rows of a block; the last may have fewer
  int64_t count;

  // Makes at most 64 blocks, which bounds the partial sums, of at least 16 rows.
  explicit RowBlocks(int64_t all_rows)
      : rows(all_rows),
        size(std::max<int64_t>(16, ceil_div(all_rows, 64))),
        count(ceil_div(all_rows, size)) {}

  int64_t begin(int64_t block) const { return block * size; }
  int64_t end(int64_t block) const { return std::min(rows, (block + 1) * size); }
};

// sums[j] (+)= partials[0][j] + partials[1][j] + ...; partials of n elements, `stride` apart.
inline void add_partials(const float* partials, int64_t count, int64_t stride, float* sums,
                         int64_t n, bool accumulate) {
  constexpr int64_t kColumns = 64;
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < n; first += kColumns) {
    const int64_t columns = std::min(kColumns, n - first);
    float total[kColumns] = {};
    for (int64_t block = 0; block < count; ++block) {
      const float* partial = partials + block * stride + first;
#pragma omp simd
      for (int64_t j = 0; j < columns; ++j) {
        total[j] += partial[j];
      }
    }
    for (int64_t j = 0; j < columns; ++j) {
      sums[first + j] = accumulate ? sums[first + j] + total[j] : total[j];
    }
  }
}

}  // namespace hidup::kernels
