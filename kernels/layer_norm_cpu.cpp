#include "kernels/layer_norm.h"

#include <vector>

#include "kernels/cpu_columns.h"
#include "kernels/cpu_layer_norm.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// dx[j] = own(j) + added[j], or own(j) if that is null; dx may be `added` or an input of own().
template <typename Element, typename Own>
void write_gradient(Own own, const Element* added, Element* dx, int64_t n) {
  if (added == nullptr) {
    write_row(own, dx, n);
  } else {
    write_row([=](int64_t j) { return own(j) + added[j]; }, dx, n);
  }
}

// Adds a row to the block's partial sums: sums[j] for dgamma, sums[n + j] for dbeta if centered.
template <bool kCentered, typename Element>
void backward_row(const LayerNormBackward<Element>& args, int64_t row, float* sums) {
  const int64_t n = args.n;
  const Element* x = args.x + row * n;
  const Element* gamma = args.gamma;
  const Element* dy = args.dy + row * n;
  const float mean = kCentered ? args.mean[row] : 0.0F;
  const float rstd = args.rstd[row];
  float sum_g = 0.0F;
  float sum_gh = 0.0F;
#pragma omp simd reduction(+ : sum_g, sum_gh)
  for (int64_t j = 0; j < n; ++j) {
    const float h = from_mean<kCentered>(x[j], mean) * rstd;
    const float g = dy[j] * gamma[j];
    sum_gh += g * h;
    sums[j] += dy[j] * h;
    if constexpr (kCentered) {
      sum_g += g;
      sums[n + j] += dy[j];
    }
  }
  const float average_g = sum_g / static_cast<float>(n);
  const float average_gh = sum_gh / static_cast<float>(n);
  const auto own = [=](int64_t j) {
    const float h = from_mean<kCentered>(x[j], mean) * rstd;
    const float g = dy[j] * gamma[j];
    return rstd * ((kCentered ? g - average_g : g) - h * average_gh);
  };
  write_gradient(own, row_at(args.added, row * n), args.dx + row * n, n);
}

template <bool kCentered, typename Element>
void backward(const LayerNormBackward<Element>& args) {
  thread_local std::vector<float> memory;
  const int64_t n = args.n;
  const int64_t sums = kCentered ? 2 * n : n;  // per block: dgamma, dbeta
  const RowBlocks blocks(args.rows);
  float* partials = scratch(memory, blocks.count * sums);
  for_each(blocks.count, [&](int64_t block) {
    float* partial = partials + block * sums;
    std::fill_n(partial, sums, 0.0F);
    for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
      backward_row<kCentered>(args, row, partial);
    }
  });
  add_partials(partials, blocks.count, sums, args.dgamma, n, args.accumulate);
  if constexpr (kCentered) {
    add_partials(partials + n, blocks.count, sums, args.dbeta, n, args.accumulate);
  }
}

}  // namespace

template <typename Element>
void layer_norm_forward(Stream& stream, const LayerNormForward<Element>& args) {
  check_normalized_rows("layer_norm", args.rows, args.n);
  stream.enqueue([=] {
    for_each(args.rows, [&](int64_t row) {
      const int64_t at = row * args.n;
      normalize(args.x + at, args.gamma, args.beta, args.y + at, row_at(args.mean, row),
                args.rstd + row, args.n, args.eps);
    });
  });
}

template <typename Element>
void layer_norm_backward(Stream& stream, const LayerNormBackward<Element>& args) {
  check_normalized_rows("layer_norm_backward", args.rows, args.n);
  stream.enqueue([=] { args.dbeta != nullptr ? backward<true>(args) : backward<false>(args); });
}

HIDUP_INSTANTIATE(layer_norm_forward);
HIDUP_INSTANTIATE(layer_norm_backward);

}  // namespace hidup::kernels
