#include "kernels/cuda_columns.h"
#include "kernels/cuda_layer_norm.h"
#include "kernels/layer_norm.h"

namespace hidup::kernels {
namespace {

// kGroup threads do a row.
template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads) forward_kernel(LayerNormForward<Element> args) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t n = args.n;
  if (row >= args.rows) {
    return;  // the whole group
  }
  const Element* in = args.x + row * n;
  float sum = 0.0F;
  for (int64_t j = threadIdx.x % kGroup; j < n; j += kGroup) {
    sum += widen(in[j]);
  }
  normalize<kGroup>(in, sum, args.gamma, args.beta, args.y + row * n, args.mean + row,
                    args.rstd + row, n, args.eps);
}

template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads) input_gradient_kernel(LayerNormBackward<Element> args) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t first = threadIdx.x % kGroup;
  const int64_t n = args.n;
  if (row >= args.rows) {
    return;  // the whole group
  }
  const float average = args.mean[row];
  const float factor = args.rstd[row];
  const Element* in = args.x + row * n;
  const Element* gradient = args.dy + row * n;
  const Element* gamma = args.gamma;
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
    args.dx[row * n + j] = narrow<Element>(factor * (g - average_g - h * average_gh));
  }
}

// partials[block, 0, j] and partials[block, 1, j] = the shares of a block of rows in dgamma, dbeta.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    partials_kernel(LayerNormBackward<Element> args, float* partials, RowBlocks blocks) {
  const int64_t n = args.n;
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float dgamma = 0.0F;
  float dbeta = 0.0F;
  for (int64_t row = first; j < n && row < blocks.end(blockIdx.y); row += kSumRows) {
    const float gradient = widen(args.dy[row * n + j]);
    dgamma += gradient * ((widen(args.x[row * n + j]) - args.mean[row]) * args.rstd[row]);
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
void layer_norm_forward(Stream& stream, const LayerNormForward<Element>& args) {
  check_normalized_rows("layer_norm", args.rows, args.n);
  launch_rows(stream, forward_kernel<Element, kWarp>, forward_kernel<Element, kThreads>, args.rows,
              args.n, args);
}

// The gradients of gamma and beta first: dx may be dy.
template <typename Element>
void layer_norm_backward(Stream& stream, const LayerNormBackward<Element>& args) {
  check_normalized_rows("layer_norm_backward", args.rows, args.n);
  const int64_t n = args.n;
  const RowBlocks blocks(args.rows);
  auto* partials = static_cast<float*>(
      cuda_stream(stream).scratch(blocks.count * 2 * n * static_cast<int64_t>(sizeof(float))));
  const dim3 grid = grid_of(ceil_div(n, kSumColumns), blocks.count);
  launch(stream, partials_kernel<Element>, grid, kThreads, args, partials, blocks);
  add_partials(stream, partials, blocks.count, 2 * n, args.dgamma, n, args.accumulate);
  add_partials(stream, partials + n, blocks.count, 2 * n, args.dbeta, n, args.accumulate);
  launch_rows(stream, input_gradient_kernel<Element, kWarp>,
              input_gradient_kernel<Element, kThreads>, args.rows, n, args);
}

#define INSTANTIATE(Element)                                                  \
  template decltype(layer_norm_forward<Element>) layer_norm_forward<Element>; \
  template decltype(layer_norm_backward<Element>) layer_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
