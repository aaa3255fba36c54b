#include "kernels/layer_norm.h"

#include "kernels/cuda_layer_norm.h"
#include "kernels/cuda_norm_backward.h"

namespace hidup::kernels {
namespace {

template <typename Row, bool kCentered>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(LayerNormForward<typename Row::Element> args) {
  const int64_t row = thread_of_grid() / Row::kGroup;
  const int64_t at = row * args.n;
  if (row < args.rows) {  // otherwise the whole group has no row
    normalize<kCentered>(Row(args.x + at, args.n), args.gamma, args.beta, args.y + at,
                         kCentered ? args.mean + row : nullptr, args.rstd + row, args.n, args.eps);
  }
}

}  // namespace

template <typename Element>
void layer_norm_forward(Stream& stream, const LayerNormForward<Element>& args) {
  check_normalized_rows("layer_norm", args.rows, args.n);
  const bool aligned = aligned16(args.x, args.gamma, args.beta, args.y);
  with_row_class<Element>(args.n, aligned, [&](auto row) {
    using Row = typename decltype(row)::type;
    const auto kernel =
        args.beta != nullptr ? forward_kernel<Row, true> : forward_kernel<Row, false>;
    launch(stream, kernel, blocks_of_rows<Row>(args.rows), kThreads, args);
  });
}

template <typename Element>
void layer_norm_backward(Stream& stream, const LayerNormBackward<Element>& args) {
  check_normalized_rows("layer_norm_backward", args.rows, args.n);
  args.dbeta != nullptr ? norm_backward<true>(stream, args) : norm_backward<false>(stream, args);
}

HIDUP_INSTANTIATE(layer_norm_forward);
HIDUP_INSTANTIATE(layer_norm_backward);

}  // namespace hidup::kernels
