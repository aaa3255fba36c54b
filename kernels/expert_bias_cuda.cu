#include "kernels/cuda_columns.h"
#include "kernels/cuda_elements.h"
#include "kernels/cuda_packed.h"
#include "kernels/expert_matmul.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// A warp handles a row.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Element* x, const Element* bias, const int32_t* counts, Element* y,
                   ExpertSize size) {
  const int64_t rows = size.batch * size.experts * size.capacity;
  for (int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp) {
    const int64_t index = row / size.capacity;
    const bool used = row % size.capacity < counts[index];
    const Element* added = bias + index / size.batch * size.n;
    for (int64_t j = threadIdx.x % kWarp; j < size.n; j += kWarp) {
      const float value = used ? widen(x[row * size.n + j]) + widen(added[j]) : 0.0F;
      y[row * size.n + j] = narrow<Element>(value);
    }
  }
}

// Does the same for packed rows.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    packed_forward_kernel(const Element* x, const Element* bias, ExpertStarts starts, Element* y,
                          int64_t n) {
  const int64_t rows = starts.of(starts.experts);
  for (int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp) {
    const Element* added = bias + starts.expert_of(row) * n;
    for (int64_t j = threadIdx.x % kWarp; j < n; j += kWarp) {
      y[row * n + j] = narrow<Element>(widen(x[row * n + j]) + widen(added[j]));
    }
  }
}

// A block sums some columns of an expert. `starts`: the first row of every [expert, sequence] of
// packed rows, otherwise null.
template <typename Element, bool kPacked>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const Element* dy, const int32_t* counts, const int32_t* starts, float* dbias,
                    ExpertSize size, bool accumulate) {
  const int64_t expert = blockIdx.x;
  const int64_t j = int64_t{blockIdx.y} * kSumColumns + threadIdx.x % kSumColumns;
  float total = 0.0F;
  for (int64_t b = 0; j < size.n && b < size.batch; ++b) {
    const int64_t index = expert * size.batch + b;
    const int64_t first = kPacked ? starts[index] : index * size.capacity;
    const Element* rows = dy + first * size.n + j;
    float sum = 0.0F;  // of one sequence, so that long sums lose less
    for (int64_t row = threadIdx.x / kSumColumns; row < counts[index]; row += kSumRows) {
      sum += widen(rows[row * size.n]);
    }
    total += sum;
  }
  total = sum_of_column(total);
  if (j < size.n && threadIdx.x < kSumColumns) {
    float* out = dbias + expert * size.n + j;
    *out = accumulate ? *out + total : total;
  }
}

}  // namespace

template <typename Element>
void expert_bias(Stream& stream, const Element* x, const Element* bias, const int32_t* counts,
                 Element* y, ExpertSize size) {
  check_size(size);
  constexpr int kRows = kThreads / kWarp;
  if (size.packed) {
    launch(stream, packed_forward_kernel<Element>, blocks_for(size.rows, kRows), kThreads, x, bias,
           expert_starts(stream, counts, size), y, size.n);
    return;
  }
  launch(stream, forward_kernel<Element>,
         blocks_for(size.batch * size.experts * size.capacity, kRows), kThreads, x, bias, counts, y,
         size);
}

template <typename Element>
void expert_bias_backward(Stream& stream, const Element* dy, const int32_t* counts, float* dbias,
                          ExpertSize size, bool accumulate) {
  check_size(size);
  const int32_t* starts = size.packed ? expert_starts(stream, counts, size).of_pairs : nullptr;
  const dim3 grid = grid_of(size.experts, ceil_div(size.n, kSumColumns));
  launch(stream, size.packed ? backward_kernel<Element, true> : backward_kernel<Element, false>,
         grid, kThreads, dy, counts, starts, dbias, size, accumulate);
}

HIDUP_INSTANTIATE(expert_bias);
HIDUP_INSTANTIATE(expert_bias_backward);

}  // namespace hidup::kernels
