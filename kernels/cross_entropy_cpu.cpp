#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/cpu_math.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// The sum of exp(x - shift): in single precision within short stretches, and in double over the
// stretches, because a vocabulary may be large.
template <typename Element>
double sum_of_exponentials(const Element* x, int64_t n, float shift) {
  constexpr int64_t kStretch = 1024;
  double total = 0.0;
  for (int64_t first = 0; first < n; first += kStretch) {
    const int64_t end = std::min(n, first + kStretch);
    total += static_cast<double>(
        sum_of(end - first, [=](int64_t j) { return fast_exp(x[first + j] - shift); }));
  }
  return total;
}

// log of the sum of exp(x); -infinity if there is no x.
template <typename Element>
double log_sum_exp(const Element* x, int64_t n) {
  const float largest = max_of(x, n);
  return static_cast<double>(largest) + std::log(sum_of_exponentials(x, n, largest));
}

// loss (+)= scale * the sum of the rows' losses.
void add_losses(const double* losses, int64_t rows, float scale, bool accumulate, float* loss) {
  double sum = 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    sum += losses[row];
  }
  const auto share = static_cast<float>(static_cast<double>(scale) * sum);
  *loss = accumulate ? *loss + share : share;
}

// The right class's gradient. `stored` is p * factor; where that was rounded, it is computed anew
// from `exact`.
template <typename Element>
Element minus_one_hot(Element stored, float exact, float factor) {
  return std::is_same_v<Element, float> ? Element(stored - factor) : Element(exact - factor);
}

// log_sum_exp over the classes of all parts, from the log_sum_exp of each part. Parts are `stride`
// apart.
double merge_row(const float* values, int64_t parts, int64_t stride) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  double largest = kNothing;
  for (int64_t part = 0; part < parts; ++part) {
    largest = std::max(largest, static_cast<double>(values[part * stride]));
  }
  double sum = 0.0;
  for (int64_t part = 0; part < parts; ++part) {
    const auto value = static_cast<double>(values[part * stride]);
    sum += value == kNothing ? 0.0 : std::exp(value - largest);
  }
  return largest + std::log(sum);
}

}  // namespace

template <typename Element>
void cross_entropy_forward(Stream& stream, const CrossEntropyForward<Element>& args) {
  check_classes("cross_entropy", args.rows, args.vocab, 0);
  stream.enqueue([=] {
    thread_local std::vector<double> memory;
    double* losses = scratch(memory, args.rows);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < args.rows; ++row) {
      const Element* x = args.logits + row * args.vocab;
      const double value = log_sum_exp(x, args.vocab);
      args.lse[row] = static_cast<float>(value);
      const int32_t target = args.targets[row];
      losses[row] = target < 0 ? 0.0 : value - static_cast<double>(float{x[target]});
    }
    add_losses(losses, args.rows, args.scale, args.accumulate, args.loss);
  });
}

template <typename Element>
void cross_entropy_stats(Stream& stream, const CrossEntropyStats<Element>& args) {
  check_classes("cross_entropy_stats", args.rows, args.columns, args.first);
  stream.enqueue([=] {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < args.rows; ++row) {
      const Element* x = args.logits + row * args.columns;
      const int64_t target = args.targets[row] - args.first;
      const bool here = target >= 0 && target < args.columns;
      args.stats[2 * row] = static_cast<float>(log_sum_exp(x, args.columns));
      args.stats[2 * row + 1] = here ? float{x[target]} : 0.0F;
    }
  });
}

void cross_entropy_merge(Stream& stream, const CrossEntropyMerge& args) {
  check_extents("cross_entropy_merge", {args.parts, args.rows, 2});
  stream.enqueue([=] {
    thread_local std::vector<double> memory;
    double* losses = scratch(memory, args.rows);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < args.rows; ++row) {
      const double value = merge_row(args.stats + 2 * row, args.parts, 2 * args.rows);
      double logit = 0.0;
      for (int64_t part = 0; part < args.parts; ++part) {
        logit += static_cast<double>(args.stats[2 * (part * args.rows + row) + 1]);
      }
      args.lse[row] = static_cast<float>(value);
      losses[row] = args.targets[row] < 0 ? 0.0 : value - logit;
    }
    add_losses(losses, args.rows, args.scale, args.accumulate, args.loss);
  });
}

template <typename Element>
void cross_entropy_backward(Stream& stream, const CrossEntropyBackward<Element>& args) {
  check_classes("cross_entropy_backward", args.rows, args.columns, args.first);
  stream.enqueue([=] {
    const float factor = args.scale * args.state->loss_scale;
    const int64_t columns = args.columns;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < args.rows; ++row) {
      const Element* x = args.logits + row * columns;
      Element* dx = args.dlogits + row * columns;
      if (args.targets[row] < 0) {
        std::fill_n(dx, columns, Element(0.0F));
        continue;
      }
      const float shift = args.lse[row];
      const int64_t target = args.targets[row] - args.first;
      const bool here = target >= 0 && target < columns;
      const float logit = here ? float{x[target]} : 0.0F;  // which dx may overwrite
#pragma omp simd
      for (int64_t j = 0; j < columns; ++j) {
        dx[j] = factor * fast_exp(x[j] - shift);
      }
      if (here) {
        dx[target] = minus_one_hot(dx[target], factor * fast_exp(logit - shift), factor);
      }
    }
  });
}

#define INSTANTIATE(Element)                                                        \
  template decltype(cross_entropy_forward<Element>) cross_entropy_forward<Element>; \
  template decltype(cross_entropy_stats<Element>) cross_entropy_stats<Element>;     \
  template decltype(cross_entropy_backward<Element>) cross_entropy_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
