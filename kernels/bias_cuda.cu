#include "kernels/bias.h"
#include "kernels/cuda_columns.h"

namespace hidup::kernels {
namespace {

// A thread owns a column (four, as V) and walks down its rows. n counts Vs.
template <typename V>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const V* x, const V* b, V* y, int64_t rows, int64_t n) {
  const int64_t j = thread_of_grid();
  if (j >= n) {
    return;
  }
  const V added = b[j];
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    y[row * n + j] = x[row * n + j] + added;
  }
}

template <typename V>
void forward(Stream& stream, const float* x, const float* b, float* y, int64_t rows, int64_t n) {
  const dim3 grid(static_cast<unsigned>(ceil_div(n, kThreads)), blocks_for(rows, 1));
  launch(stream, forward_kernel<V>, grid, kThreads, reinterpret_cast<const V*>(x),
         reinterpret_cast<const V*>(b), reinterpret_cast<V*>(y), rows, n);
}

// partials[block, j] = the sum of the rows of a block.
__global__ void __launch_bounds__(kThreads)
    partials_kernel(const float* dy, float* partials, RowBlocks blocks, int64_t n) {
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float sum = 0.0F;
  for (int64_t row = first; j < n && row < blocks.end(blockIdx.y); row += kSumRows) {
    sum += dy[row * n + j];
  }
  sum = sum_of_column(sum);
  if (j < n && threadIdx.x < kSumColumns) {
    partials[blockIdx.y * n + j] = sum;
  }
}

}  // namespace

void bias_forward(Stream& stream, const float* x, const float* b, float* y, int64_t rows,
                  int64_t n) {
  if (n % 4 == 0 && aligned16(x, b, y)) {
    forward<float4>(stream, x, b, y, rows, n / 4);
  } else {
    forward<float>(stream, x, b, y, rows, n);
  }
}

void bias_backward(Stream& stream, const float* dy, float* db, int64_t rows, int64_t n,
                   bool accumulate) {
  const RowBlocks blocks(rows);
  auto* partials = static_cast<float*>(
      cuda_stream(stream).scratch(blocks.count * n * static_cast<int64_t>(sizeof(float))));
  const dim3 grid(static_cast<unsigned>(ceil_div(n, kSumColumns)),
                  static_cast<unsigned>(blocks.count));
  launch(stream, partials_kernel, grid, kThreads, dy, partials, blocks, n);
  add_partials(stream, partials, blocks.count, n, db, n, accumulate);
}

}  // namespace hidup::kernels
