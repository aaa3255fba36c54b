#include "kernels/layer_norm.h"

#include <vector>

#include "kernels/cpu_columns.h"
#include "kernels/cpu_layer_norm.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// One row of the backward pass; adds to the block's partial sums of dgamma and dbeta.
template <typename Element>
void backward_row(const Element* x, const Element* gamma, float mean, float rstd, const Element* dy,
                  const Element* added, Element* dx, float* dgamma, float* dbeta, int64_t n) {
  float sum_g = 0.0F;
  float sum_gh = 0.0F;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (int64_t j = 0; j < n; ++j) {
    const float h = (x[j] - mean) * rstd;
    const float g = dy[j] * gamma[j];
    sum_g += g;
    sum_gh += g * h;
    dgamma[j] += dy[j] * h;
    dbeta[j] += dy[j];
  }
  const float average_g = sum_g / static_cast<float>(n);
  const float average_gh = sum_gh / static_cast<float>(n);
  const auto own = [=](int64_t j) {
    const float h = (x[j] - mean) * rstd;
    return rstd * (dy[j] * gamma[j] - average_g - h * average_gh);
  };
  write_gradient(own, added, dx, n);
}

}  // namespace

template <typename Element>
void layer_norm_forward(Stream& stream, const LayerNormForward<Element>& args) {
  check_normalized_rows("layer_norm", args.rows, args.n);
  stream.enqueue([=] {
    for_each(args.rows, [&](int64_t row) {
      normalize(args.x + row * args.n, args.gamma, args.beta, args.y + row * args.n, args.mean[row],
                args.rstd[row], args.n, args.eps);
    });
  });
}

template <typename Element>
void layer_norm_backward(Stream& stream, const LayerNormBackward<Element>& args) {
  check_normalized_rows("layer_norm_backward", args.rows, args.n);
  stream.enqueue([=] {
    thread_local std::vector<float> memory;
    const int64_t n = args.n;
    const RowBlocks blocks(args.rows);
    float* partials = scratch(memory, blocks.count * 2 * n);  // per block: dgamma, dbeta
    for_each(blocks.count, [&](int64_t block) {
      float* partial = partials + block * 2 * n;
      std::fill_n(partial, 2 * n, 0.0F);
      for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        const int64_t at = row * n;
        backward_row(args.x + at, args.gamma, args.mean[row], args.rstd[row], args.dy + at,
                     row_at(args.added, at), args.dx + at, partial, partial + n, n);
      }
    });
    add_partials(partials, blocks.count, 2 * n, args.dgamma, n, args.accumulate);
    add_partials(partials + n, blocks.count, 2 * n, args.dbeta, n, args.accumulate);
  });
}

#define INSTANTIATE(Element)                                                  \
  template decltype(layer_norm_forward<Element>) layer_norm_forward<Element>; \
  template decltype(layer_norm_backward<Element>) layer_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
