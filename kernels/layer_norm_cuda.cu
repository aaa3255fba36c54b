#include "kernels/cuda_columns.h"
#include "kernels/cuda_layer_norm.h"
#include "kernels/layer_norm.h"

namespace hidup::kernels {
namespace {

// kGroup threads do a row.
template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Element* x, const Element* gamma, const Element* beta, Element* y,
                   float* mean, float* rstd, int64_t rows, int64_t n, float eps) {
  const int64_t row = thread_of_grid() / kGroup;
  if (row >= rows) {
    return;  // the whole group
  }
  const Element* in = x + row * n;
  float sum = 0.0F;
  for (int64_t j = threadIdx.x % kGroup; j < n; j += kGroup) {
    sum += widen(in[j]);
  }
  normalize<kGroup>(in, sum, gamma, beta, y + row * n, mean + row, rstd + row, n, eps);
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
  launch_rows(stream, forward_kernel<Element, kWarp>, forward_kernel<Element, kThreads>, rows, n, x,
              gamma, beta, y, mean, rstd, rows, n, eps);
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
  launch_rows(stream, input_gradient_kernel<Element, kWarp>,
              input_gradient_kernel<Element, kThreads>, rows, n, x, gamma, mean, rstd, dy, dx, rows,
              n);
}

#define INSTANTIATE(Element)                                                  \
  template decltype(layer_norm_forward<Element>) layer_norm_forward<Element>; \
  template decltype(layer_norm_backward<Element>) layer_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
