// Inside the CUDA kernels: sums over rows. Rows are summed in blocks that only the row count
// decides, a partial sum per block, and the partial sums are added in order.
#pragma once

#include <cstdint>

#include "kernels/cuda_math.h"

namespace hidup::kernels {

inline constexpr int kSumColumns = 32;  // that a block of threads sums: a warp reads neighbours
inline constexpr int kSumRows = kThreads / kSumColumns;  // rows that it reads at a time

struct RowBlocks {
  int64_t rows;
  int64_t size;  // rows of a block; the last may have fewer
  int64_t count;

  // At most 64 blocks, which bounds the partial sums, of at least 64 rows.
  explicit RowBlocks(int64_t all_rows)
      : rows(all_rows),
        size(all_rows > 64 * 64 ? ceil_div(all_rows, 64) : 64),
        count(ceil_div(all_rows, size)) {}

  __device__ int64_t begin(int64_t block) const { return block * size; }
  __device__ int64_t end(int64_t block) const { return smaller(rows, (block + 1) * size); }
};

// The sum of `value` over the threads of a block of [kSumRows][kSumColumns] that have the same
// column; valid in the first row of them.
__device__ inline float sum_of_column(float value) {
  __shared__ float values[kSumRows][kSumColumns];
  const int row = static_cast<int>(threadIdx.x) / kSumColumns;
  const int column = static_cast<int>(threadIdx.x) % kSumColumns;
  __syncthreads();  // others may still read what the last call left
  values[row][column] = value;
  __syncthreads();
  float sum = values[0][column];
  for (int i = 1; i < kSumRows; ++i) {
    sum += values[i][column];
  }
  return sum;
}

// sums[j] (+)= partials[0][j] + partials[1][j] + ...; a partial has n elements and the next one
// follows `stride` elements later.
static __global__ void __launch_bounds__(kThreads)
    add_partials_kernel(const float* partials, int64_t count, int64_t stride, float* sums,
                        int64_t n, bool accumulate) {
  for (int64_t j = thread_of_grid(); j < n; j += threads_of_grid()) {
    float total = 0.0F;
    for (int64_t block = 0; block < count; ++block) {
      total += partials[block * stride + j];
    }
    sums[j] = accumulate ? sums[j] + total : total;
  }
}

inline void add_partials(Stream& stream, const float* partials, int64_t count, int64_t stride,
                         float* sums, int64_t n, bool accumulate) {
  launch(stream, add_partials_kernel, blocks_for(n, kThreads), kThreads, partials, count, stride,
         sums, n, accumulate);
}

}  // namespace hidup::kernels
