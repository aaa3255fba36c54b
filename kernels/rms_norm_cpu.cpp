#include "kernels/rms_norm.h"

#include <vector>

#include "kernels/cpu_columns.h"
#include "kernels/cpu_layer_norm.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Adds to the block's partial sums of dgamma.
template <typename Element>
void backward_row(const Element* x, const Element* gamma, float rstd, const Element* dy,
                  const Element* added, Element* dx, float* dgamma, int64_t n) {
  float sum_gh = 0.0F;
#pragma omp simd reduction(+ : sum_gh)
  for (int64_t j = 0; j < n; ++j) {
    const float h = x[j] * rstd;
    sum_gh += dy[j] * gamma[j] * h;
    dgamma[j] += dy[j] * h;
  }
  const float average_gh = sum_gh / static_cast<float>(n);
  const auto own = [=](int64_t j) { return rstd * (dy[j] * gamma[j] - x[j] * rstd * average_gh); };
  write_gradient(own, added, dx, n);
}

}  // namespace

template <typename Element>
void rms_norm_forward(Stream& stream, const RmsNormForward<Element>& args) {
  check_normalized_rows("rms_norm", args.rows, args.n);
  stream.enqueue([=] {
    for_each(args.rows, [&](int64_t row) {
      normalize_square(args.x + row * args.n, args.gamma, args.y + row * args.n, args.rstd[row],
                       args.n, args.eps);
    });
  });
}

template <typename Element>
void rms_norm_backward(Stream& stream, const RmsNormBackward<Element>& args) {
  check_normalized_rows("rms_norm_backward", args.rows, args.n);
  stream.enqueue([=] {
    thread_local std::vector<float> memory;
    const int64_t n = args.n;
    const RowBlocks blocks(args.rows);
    float* partials = scratch(memory, blocks.count * n);  // per block: dgamma
    for_each(blocks.count, [&](int64_t block) {
      float* partial = partials + block * n;
      std::fill_n(partial, n, 0.0F);
      for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        const int64_t at = row * n;
        backward_row(args.x + at, args.gamma, args.rstd[row], args.dy + at, row_at(args.added, at),
                     args.dx + at, partial, n);
      }
    });
    add_partials(partials, blocks.count, n, args.dgamma, n, args.accumulate);
  });
}

#define INSTANTIATE(Element)                                              \
  template decltype(rms_norm_forward<Element>) rms_norm_forward<Element>; \
  template decltype(rms_norm_backward<Element>) rms_norm_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
