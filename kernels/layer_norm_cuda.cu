#include "kernels/cuda_columns.h"
#include "kernels/cuda_elements.h"
#include "kernels/layer_norm.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kShort = 1024;  // elements of a row that one warp does; longer ones take a block

// kGroup threads do a row, 32 or all of a block.
template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Element* x, const Element* gamma, const Element* beta, Element* y,
                   float* mean, float* rstd, int64_t rows, int64_t n, float eps) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t first = threadIdx.x % kGroup;
  if (row >= rows) {
    return;  // the whole group
  }
  const Element* in = x + row * n;
  float sum = 0.0F;
  for (int64_t j = first; j < n; j += kGroup) {
    sum += widen(in[j]);
  }
  const float average = group_reduce<kGroup>(sum, Sum{}) / static_cast<float>(n);
  // From the differences: the mean of the squares would cancel where the mean is large.
  float squares = 0.0F;
  for (int64_t j = first; j < n; j += kGroup) {
    const float difference = widen(in[j]) - average;
    squares += difference * difference;
  }
  squares = group_reduce<kGroup>(squares, Sum{});
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(n) + eps);
  if (first == 0) {
    mean[row] = average;
    rstd[row] = factor;
  }
  for (int64_t j = first; j < n; j += kGroup) {
    const float h = (widen(in[j]) - average) * factor;
    y[row * n + j] = narrow<Element>(h * widen(gamma[j]) + widen(beta[j]));
  }
}

template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads)
    input_gradient_kernel(const Element* x, const Element* gamma, const float* mean,
                          const float* rstd, const Element* dy, Element* dx, int64_t rows,
                          int64_t n) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t first = threadIdx.x % kGroup;
  if (row >= rows) {
    return;  // the whole group
  }
  const float average = mean[row];
  const float factor = rstd[row];
  const Element* in = x + row * n;
  const Element* gradient = dy + row * n;
  float sum_g = 0.0F;
  float sum_gh = 0.0F;
  for (int64_t j = first; j < n; j += kGroup) {
    const float g = widen(gradient[j]) * widen(gamma[j]);
    sum_g += g;
    sum_gh += g * ((widen(in[j]) - average) * factor);
  }
  const float average_g = group_reduce<kGroup>(sum_g, Sum{}) / static_cast<float>(n);
  const float average_gh = group_reduce<kGroup>(sum_gh, Sum{}) / static_cast<float>(n);
  for (int64_t j = first; j < n; j += kGroup) {
    const float h = (widen(in[j]) - average) * factor;
    const float g = widen(gradient[j]) * widen(gamma[j]);
    dx[row * n + j] = narrow<Element>(factor * (g - average_g - h * average_gh));
  }
}

// partials[block, 0, j] and partials[block, 1, j] = the shares of a block of rows in dgamma, dbeta.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    partials_kernel(const Element* x, const float* mean, const float* rstd, const Element* dy,
                    float* partials, RowBlocks blocks, int64_t n) {
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float dgamma = 0.0F;
  float dbeta = 0.0F;
  for (int64_t row = first; j < n && row < blocks.end(blockIdx.y); row += kSumRows) {
    const float gradient = widen(dy[row * n + j]);
    dgamma += gradient * ((widen(x[row * n + j]) - mean[row]) * rstd[row]);
    dbeta += gradient;
  }
  dgamma = sum_of_column(dgamma);
  dbeta = sum_of_column(dbeta);
  if (j < n && threadIdx.x < kSumColumns) {
    partials[2 * blockIdx.y * n + j] = dgamma;
    partials[(2 * blockIdx.y + 1) * n + j] = dbeta;
  }
}

}  // namespace

template <typename Element>
void layer_norm_forward(Stream& stream, const Element* x, const Element* gamma, const Element* beta,
                        Element* y, float* mean, float* rstd, int64_t rows, int64_t n, float eps) {
  if (n <= kShort) {
    launch(stream, forward_kernel<Element, kWarp>,
           static_cast<unsigned>(ceil_div(rows, kThreads / kWarp)), kThreads, x, gamma, beta, y,
           mean, rstd, rows, n, eps);
  } else {
    launch(stream, forward_kernel<Element, kThreads>, static_cast<unsigned>(rows), kThreads, x,
           gamma, beta, y, mean, rstd, rows, n, eps);
  }
}

// The gradients of gamma and beta first: dx may be dy.
template <typename Element>
void layer_norm_backward(Stream& stream, const Element* x, const Element* gamma, const float* mean,
                         const float* rstd, const Element* dy, Element* dx, float* dgamma,
                         float* dbeta, int64_t rows, int64_t n, bool accumulate) {
  const RowBlocks blocks(rows);
  auto* partials = static_cast<float*>(
      cuda_stream(stream).scratch(blocks.count * 2 * n * static_cast<int64_t>(sizeof(float))));
  const dim3 grid(static_cast<unsigned>(ceil_div(n, kSumColumns)),
                  static_cast<unsigned>(blocks.count));
  launch(stream, partials_kernel<Element>, grid, kThreads, x, mean, rstd, dy, partials, blocks, n);
  add_partials(stream, partials, blocks.count, 2 * n, dgamma, n, accumulate);
  add_partials(stream, partials + n, blocks.count, 2 * n, dbeta, n, accumulate);
  if (n <= kShort) {
    launch(stream, input_gradient_kernel<Element, kWarp>,
           static_cast<unsigned>(ceil_div(rows, kThreads / kWarp)), kThreads, x, gamma, mean, rstd,
           dy, dx, rows, n);
  } else {
    launch(stream, input_gradient_kernel<Element, kThreads>, static_cast<unsigned>(rows), kThreads,
           x, gamma, mean, rstd, dy, dx, rows, n);
  }
}

#define INSTANTIATE(Element)                                                  \
  template decltype(layer_norm_forward<Element>) layer_norm_forward<Element>; \
  template decltype(layer_norm_backward<Element>) layer_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
