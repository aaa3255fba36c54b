#include "kernels/cuda_columns.h"
#include "kernels/cuda_layer_norm.h"
#include "kernels/preconditions.h"
#include "kernels/rms_norm.h"

namespace hidup::kernels {
namespace {

// kGroup threads do a row.
template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads) forward_kernel(RmsNormForward<Element> args) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t at = row * args.n;
  if (row < args.rows) {  // else the whole group has none
    normalize_square<kGroup>(args.x + at, args.gamma, args.y + at, args.rstd + row, args.n,
                             args.eps);
  }
}

template <typename Element, int kGroup>
__global__ void __launch_bounds__(kThreads) input_gradient_kernel(RmsNormBackward<Element> args) {
  const int64_t row = thread_of_grid() / kGroup;
  const int64_t first = threadIdx.x % kGroup;
  const int64_t n = args.n;
  if (row >= args.rows) {
    return;  // the whole group
  }
  const float factor = args.rstd[row];
  const Element* in = args.x + row * n;
  const Element* gradient = args.dy + row * n;
  float sum_gh = 0.0F;
  for (int64_t j = first; j < n; j += kGroup) {
    sum_gh += widen(gradient[j]) * widen(args.gamma[j]) * (widen(in[j]) * factor);
  }
  const float average_gh = group_reduce<kGroup>(sum_gh, Sum{}) / static_cast<float>(n);
  for (int64_t j = first; j < n; j += kGroup) {
    const float g = widen(gradient[j]) * widen(args.gamma[j]);
    args.dx[row * n + j] = narrow<Element>(factor * (g - widen(in[j]) * factor * average_gh));
  }
}

// partials[block, j] = the share of a block of rows in dgamma.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    partials_kernel(RmsNormBackward<Element> args, float* partials, RowBlocks blocks) {
  const int64_t n = args.n;
  const int64_t j = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float dgamma = 0.0F;
  for (int64_t row = first; j < n && row < blocks.end(blockIdx.y); row += kSumRows) {
    dgamma += widen(args.dy[row * n + j]) * (widen(args.x[row * n + j]) * args.rstd[row]);
  }
  dgamma = sum_of_column(dgamma);
  if (j < n && threadIdx.x < kSumColumns) {
    partials[blockIdx.y * n + j] = dgamma;
  }
}

}  // namespace

template <typename Element>
void rms_norm_forward(Stream& stream, const RmsNormForward<Element>& args) {
  check_normalized_rows("rms_norm", args.rows, args.n);
  launch_rows(stream, forward_kernel<Element, kWarp>, forward_kernel<Element, kThreads>, args.rows,
              args.n, args);
}

// The gradient of gamma first: dx may be dy.
template <typename Element>
void rms_norm_backward(Stream& stream, const RmsNormBackward<Element>& args) {
  check_normalized_rows("rms_norm_backward", args.rows, args.n);
  const int64_t n = args.n;
  const RowBlocks blocks(args.rows);
  auto* partials = static_cast<float*>(
      cuda_stream(stream).scratch(blocks.count * n * static_cast<int64_t>(sizeof(float))));
  const dim3 grid = grid_of(ceil_div(n, kSumColumns), blocks.count);
  launch(stream, partials_kernel<Element>, grid, kThreads, args, partials, blocks);
  add_partials(stream, partials, blocks.count, n, args.dgamma, n, args.accumulate);
  launch_rows(stream, input_gradient_kernel<Element, kWarp>,
              input_gradient_kernel<Element, kThreads>, args.rows, n, args);
}

#define INSTANTIATE(Element)                                              \
  template decltype(rms_norm_forward<Element>) rms_norm_forward<Element>; \
  template decltype(rms_norm_backward<Element>) rms_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
