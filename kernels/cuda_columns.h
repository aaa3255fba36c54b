// Sums over rows, for CUDA kernels. The row count alone decides the blocks of rows. Each block has
// a partial sum, and the partial sums are added in order.
#pragma once

#include <cstdint>

#include "kernels/cuda_math.h"

namespace hidup::kernels {

inline constexpr int kSumColumns = 32;  // columns per block of threads: a warp reads neighbours
inline constexpr int kSumRows = kThreads / kSumColumns;  // rows read at a time

struct RowBlocks {
  int64_t rows;
  int64_t size;  // rows of a block; the last may have fewer
  int64_t count;

  // Makes at most `most` blocks, which bounds the partial sums, of at least `least` rows.
  explicit RowBlocks(int64_t all_rows, int64_t most = 64, int64_t least = 64)
      : rows(all_rows),
        size(all_rows > most * least ? ceil_div(all_rows, most) : least),
        count(ceil_div(all_rows, size)) {}

  __device__ int64_t begin(int64_t block) const { return block * size; }
  __device__ int64_t end(int64_t block) const { return smaller(rows, (block + 1) * size); }
};

// Returns the sum of `value` over the threads of a block of [kSumRows][kSumColumns] that share a
// column; valid in the first row of threads.
__device__ inline float sum_of_column(float value) {
  __shared__ float values[kSumRows][kSumColumns];
  const int row = static_cast<int>(threadIdx.x) / kSumColumns;
  const int column = static_cast<int>(threadIdx.x) % kSumColumns;
  __syncthreads();  // others may still read data of the last call
  values[row][column] = value;
  __syncthreads();
  float sum = values[0][column];
  for (int i = 1; i < kSumRows; ++i) {
    sum += values[i][column];
  }
  return sum;
}

// sums[j] (+)= partials[0][j] + partials[1][j] + ... for n columns, and the same for the next n
// columns to more_sums unless that is null. A block adds kSumColumns columns.
static __global__ void __launch_bounds__(kThreads)
    add_partials_kernel(const float* partials, int64_t count, int64_t n, float* sums,
                        float* more_sums, bool accumulate) {
  const int64_t columns = more_sums == nullptr ? n : 2 * n;
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  float total = 0.0F;
  if (j < columns) {
    for (int64_t block = threadIdx.x / kSumColumns; block < count; block += kSumRows) {
      total += partials[block * columns + j];
    }
  }
  total = sum_of_column(total);
  if (j < columns && threadIdx.x < kSumColumns) {
    float& sum = j < n ? sums[j] : more_sums[j - n];
    sum = accumulate ? sum + total : total;
  }
}

inline void add_partials(Stream& stream, const float* partials, int64_t count, int64_t n,
                         float* sums, float* more_sums, bool accumulate) {
  const int64_t columns = more_sums == nullptr ? n : 2 * n;
  launch(stream, add_partials_kernel, grid_of(ceil_div(columns, kSumColumns)), kThreads, partials,
         count, n, sums, more_sums, accumulate);
}

}  // namespace hidup::kernels
