#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kStats = 3;  // numbers per row and part of the classes

// Returns the sum of exp(x - shift): in single precision within short stretches, and in double over
// the stretches, because a vocabulary may be large.
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

// The log-sum-exp and the maximum of a row's logits x; -infinity if there are none.
struct Classes {
  double lse;
  float largest;
};
template <typename Element>
Classes classes_of(const Element* x, int64_t n) {
  const float largest = max_of(x, n);
  return {static_cast<double>(largest) + std::log(sum_of_exponentials(x, n, largest)), largest};
}

// A row's share of the loss and of the number of right rows.
struct RowLoss {
  double loss = 0.0;
  double right = 0.0;
};
RowLoss row_loss(int32_t target, const Classes& classes, float logit) {
  if (target < 0) {
    return {};
  }
  return {classes.lse - static_cast<double>(logit), logit >= classes.largest ? 1.0 : 0.0};
}

// loss (+)= scale * the sum over the rows.
void add_losses(const RowLoss* losses, int64_t rows, float scale, bool accumulate, float* loss) {
  RowLoss sum;
  for (int64_t row = 0; row < rows; ++row) {
    sum.loss += losses[row].loss;
    sum.right += losses[row].right;
  }
  const auto add = [=](double part, float& to) {
    const auto share = static_cast<float>(static_cast<double>(scale) * part);
    to = accumulate ? to + share : share;
  };
  add(sum.loss, loss[0]);
  add(sum.right, loss[1]);
}

// Returns the gradient of the target class. `stored` is p * factor; if that was rounded, the
// gradient is computed from `exact`.
template <typename Element>
Element minus_one_hot(Element stored, float exact, float factor) {
  return std::is_same_v<Element, float> ? Element(stored - factor) : Element(exact - factor);
}

// Merges the stats of all parts of the classes. Parts are `stride` apart.
Classes merge_row(const float* stats, int64_t parts, int64_t stride) {
  constexpr double kNothing = -std::numeric_limits<double>::infinity();
  double largest_lse = kNothing;
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t part = 0; part < parts; ++part) {
    largest_lse = std::max(largest_lse, static_cast<double>(stats[part * stride]));
    largest = std::max(largest, stats[part * stride + 1]);
  }
  double sum = 0.0;
  for (int64_t part = 0; part < parts; ++part) {
    const auto value = static_cast<double>(stats[part * stride]);
    sum += value == kNothing ? 0.0 : std::exp(value - largest_lse);
  }
  return {largest_lse + std::log(sum), largest};
}

}  // namespace

template <typename Element>
void cross_entropy_forward(Stream& stream, const CrossEntropyForward<Element>& args) {
  check_classes("cross_entropy", args.rows, args.vocab, 0);
  const int64_t stride = checked_stride("cross_entropy", args.rows, args.vocab, args.stride);
  stream.enqueue([=] {
    thread_local std::vector<RowLoss> memory;
    RowLoss* losses = scratch(memory, args.rows);
    for_each(args.rows, [&](int64_t row) {
      const Element* x = args.logits + row * stride;
      const Classes classes = classes_of(x, args.vocab);
      args.lse[row] = static_cast<float>(classes.lse);
      const int32_t target = args.targets[row];
      losses[row] = row_loss(target, classes, target < 0 ? 0.0F : float{x[target]});
    });
    add_losses(losses, args.rows, args.scale, args.accumulate, args.loss);
  });
}

template <typename Element>
void cross_entropy_stats(Stream& stream, const CrossEntropyStats<Element>& args) {
  check_classes("cross_entropy_stats", args.rows, args.columns, args.first);
  const int64_t stride =
      checked_stride("cross_entropy_stats", args.rows, args.columns, args.stride);
  stream.enqueue([=] {
    for_each(args.rows, [&](int64_t row) {
      const Element* x = args.logits + row * stride;
      const int64_t target = args.targets[row] - args.first;
      const bool here = target >= 0 && target < args.columns;
      const Classes classes = classes_of(x, args.columns);
      float* stats = args.stats + kStats * row;
      stats[0] = static_cast<float>(classes.lse);
      stats[1] = classes.largest;
      stats[2] = here ? float{x[target]} : 0.0F;
    });
  });
}

void cross_entropy_merge(Stream& stream, const CrossEntropyMerge& args) {
  check_extents("cross_entropy_merge", {args.parts, args.rows, kStats});
  stream.enqueue([=] {
    thread_local std::vector<RowLoss> memory;
    RowLoss* losses = scratch(memory, args.rows);
    const int64_t stride = kStats * args.rows;
    for_each(args.rows, [&](int64_t row) {
      const float* stats = args.stats + kStats * row;
      const Classes classes = merge_row(stats, args.parts, stride);
      float logit = 0.0F;  // one part has it, and the others add zeros
      for (int64_t part = 0; part < args.parts; ++part) {
        logit += stats[part * stride + 2];
      }
      args.lse[row] = static_cast<float>(classes.lse);
      losses[row] = row_loss(args.targets[row], classes, logit);
    });
    add_losses(losses, args.rows, args.scale, args.accumulate, args.loss);
  });
}

template <typename Element>
void cross_entropy_backward(Stream& stream, const CrossEntropyBackward<Element>& args) {
  check_classes("cross_entropy_backward", args.rows, args.columns, args.first);
  const int64_t stride =
      checked_stride("cross_entropy_backward", args.rows, args.columns, args.stride);
  stream.enqueue([=] {
    const float factor = args.scale * args.state->loss_scale;
    const int64_t columns = args.columns;
    for_each(args.rows, [&](int64_t row) {
      const Element* x = args.logits + row * stride;
      Element* dx = args.dlogits + row * stride;
      if (args.targets[row] < 0) {
        std::fill_n(dx, columns, Element(0.0F));
        return;
      }
      const float shift = args.lse[row];
      const int64_t target = args.targets[row] - args.first;
      const bool here = target >= 0 && target < columns;
      const float logit = here ? float{x[target]} : 0.0F;  // read before dx may overwrite it
#pragma omp simd
      for (int64_t j = 0; j < columns; ++j) {
        dx[j] = factor * fast_exp(x[j] - shift);
      }
      if (here) {
        dx[target] = minus_one_hot(dx[target], factor * fast_exp(logit - shift), factor);
      }
    });
  });
}

HIDUP_INSTANTIATE(cross_entropy_forward);
HIDUP_INSTANTIATE(cross_entropy_stats);
HIDUP_INSTANTIATE(cross_entropy_backward);

}  // namespace hidup::kernels
