#include "kernels/rms_norm.h"

#include "kernels/cuda_layer_norm.h"
#include "kernels/cuda_norm_backward.h"

namespace hidup::kernels {
namespace {

template <typename Row>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(RmsNormForward<typename Row::Element> args) {
  const int64_t row = thread_of_grid() / Row::kGroup;
  const int64_t at = row * args.n;
  if (row < args.rows) {  // else the whole group has none
    normalize_square(Row(args.x + at, args.n), args.gamma, args.y + at, args.rstd + row, args.n,
                     args.eps);
  }
}

}  // namespace

template <typename Element>
void rms_norm_forward(Stream& stream, const RmsNormForward<Element>& args) {
  check_normalized_rows("rms_norm", args.rows, args.n);
  with_row_class<Element>(args.n, aligned16(args.x, args.gamma, args.y), [&](auto row) {
    using Row = typename decltype(row)::type;
    launch(stream, forward_kernel<Row>, blocks_of_rows<Row>(args.rows), kThreads, args);
  });
}

template <typename Element>
void rms_norm_backward(Stream& stream, const RmsNormBackward<Element>& args) {
  check_normalized_rows("rms_norm_backward", args.rows, args.n);
  norm_backward<false>(stream, LayerNormBackward<Element>{.x = args.x,
                                                          .gamma = args.gamma,
                                                          .mean = nullptr,
                                                          .rstd = args.rstd,
                                                          .dy = args.dy,
                                                          .added = args.added,
                                                          .dx = args.dx,
                                                          .dgamma = args.dgamma,
                                                          .dbeta = nullptr,
                                                          .rows = args.rows,
                                                          .n = args.n,
                                                          .accumulate = args.accumulate});
}

#define INSTANTIATE(Element)                                              \
  template decltype(rms_norm_forward<Element>) rms_norm_forward<Element>; \
  template decltype(rms_norm_backward<Element>) rms_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
