#include "kernels/bias.h"
#include "kernels/cuda_columns.h"
#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// A thread owns a column of vectors V and steps through its rows. n and stride are in vectors.
template <typename V>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const V* x, const V* b, V* y, int64_t rows, int64_t n, int64_t stride) {
  const int64_t j = thread_of_grid();
  if (j >= n) {
    return;
  }
  const V added = b[j];
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    y[row * stride + j] = apply(Sum{}, x[row * stride + j], added);
  }
}

template <typename V, typename Element>
void forward(Stream& stream, const Element* x, const Element* b, Element* y, int64_t rows,
             int64_t n, int64_t stride) {
  const dim3 grid = grid_of(ceil_div(n, kThreads), blocks_for(rows, 1));
  launch(stream, forward_kernel<V>, grid, kThreads, reinterpret_cast<const V*>(x),
         reinterpret_cast<const V*>(b), reinterpret_cast<V*>(y), rows, n, stride);
}

// partials[block, j] = the sum of the rows of a block.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    partials_kernel(const Element* dy, float* partials, RowBlocks blocks, int64_t n,
                    int64_t stride) {
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float sum = 0.0F;
  for (int64_t row = first; j < n && row < blocks.end(blockIdx.y); row += kSumRows) {
    sum += widen(dy[row * stride + j]);
  }
  sum = sum_of_column(sum);
  if (j < n && threadIdx.x < kSumColumns) {
    partials[blockIdx.y * n + j] = sum;
  }
}

}  // namespace

template <typename Element>
void bias_forward(Stream& stream, const Element* x, const Element* b, Element* y, int64_t rows,
                  int64_t n, int64_t stride) {
  check_extents("bias", {rows, n});
  const int64_t apart = checked_stride("bias", rows, n, stride);
  constexpr int kCount = kPerVector<Element>;
  if (n % kCount == 0 && apart % kCount == 0 && aligned16(x, b, y)) {
    forward<Vector<Element>>(stream, x, b, y, rows, n / kCount, apart / kCount);
  } else {
    forward<Vector<Element, 1>>(stream, x, b, y, rows, n, apart);
  }
}

template <typename Element>
void bias_backward(Stream& stream, const Element* dy, float* db, int64_t rows, int64_t n,
                   bool accumulate, int64_t stride) {
  check_extents("bias_backward", {rows, n});
  const int64_t apart = checked_stride("bias_backward", rows, n, stride);
  const RowBlocks blocks(rows);
  auto* partials = static_cast<float*>(
      cuda_stream(stream).scratch(blocks.count * n * static_cast<int64_t>(sizeof(float))));
  const dim3 grid = grid_of(ceil_div(n, kSumColumns), blocks.count);
  launch(stream, partials_kernel<Element>, grid, kThreads, dy, partials, blocks, n, apart);
  add_partials(stream, partials, blocks.count, n, db, nullptr, accumulate);
}

HIDUP_INSTANTIATE(bias_forward);
HIDUP_INSTANTIATE(bias_backward);

}  // namespace hidup::kernels
