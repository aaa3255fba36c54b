#include "kernels/cross_entropy.h"
#include "kernels/cuda_elements.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kStats = 3;  // of a row and a part of the classes

// Of the logits of a row: log of the sum of exp(x), and the largest; -infinity if there is no x.
struct Classes {
  double lse;
  float largest;
};

// By a block. A thread's sum is short and in single precision; the sum over threads is in double,
// because a vocabulary may be large.
template <typename Element>
__device__ Classes classes_of(const Element* x, int64_t n) {
  float largest = -kInfinity;
  for (int64_t j = threadIdx.x; j < n; j += kThreads) {
    largest = fmaxf(largest, widen(x[j]));
  }
  largest = group_reduce<kThreads>(largest, Max{});
  float sum = 0.0F;
  for (int64_t j = threadIdx.x; j < n; j += kThreads) {
    sum += expf(widen(x[j]) - largest);
  }
  const double total = group_reduce<kThreads>(static_cast<double>(sum), Sum{});
  return {static_cast<double>(largest) + log(total), largest};
}

// What a row adds to the loss and to the number of right ones.
struct RowLoss {
  double loss;
  double right;
};
__device__ RowLoss row_loss(int32_t target, const Classes& classes, float logit) {
  if (target < 0) {
    return {0.0, 0.0};
  }
  return {classes.lse - static_cast<double>(logit), logit >= classes.largest ? 1.0 : 0.0};
}

// A block does a row.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(CrossEntropyForward<Element> args, RowLoss* losses) {
  const int64_t row = blockIdx.x;
  const Element* x = args.logits + row * args.stride;
  const Classes classes = classes_of(x, args.vocab);
  if (threadIdx.x == 0) {
    args.lse[row] = static_cast<float>(classes.lse);
    const int32_t target = args.targets[row];
    losses[row] = row_loss(target, classes, target < 0 ? 0.0F : widen(x[target]));
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) stats_kernel(CrossEntropyStats<Element> args) {
  const int64_t row = blockIdx.x;
  const Element* x = args.logits + row * args.stride;
  const Classes classes = classes_of(x, args.columns);
  if (threadIdx.x == 0) {
    const int64_t target = args.targets[row] - args.first;
    const bool here = target >= 0 && target < args.columns;
    float* stats = args.stats + kStats * row;
    stats[0] = static_cast<float>(classes.lse);
    stats[1] = classes.largest;
    stats[2] = here ? widen(x[target]) : 0.0F;
  }
}

// A thread does a row.
__global__ void __launch_bounds__(kThreads) merge_kernel(CrossEntropyMerge args, RowLoss* losses) {
  const int64_t parts = args.parts;
  const int64_t rows = args.rows;
  const int64_t stride = kStats * rows;
  constexpr auto kNothing = static_cast<double>(-kInfinity);
  for (int64_t row = thread_of_grid(); row < rows; row += threads_of_grid()) {
    const float* stats = args.stats + kStats * row;
    double largest_lse = kNothing;
    float largest = -kInfinity;
    for (int64_t part = 0; part < parts; ++part) {
      largest_lse = fmax(largest_lse, static_cast<double>(stats[part * stride]));
      largest = fmaxf(largest, stats[part * stride + 1]);
    }
    double sum = 0.0;
    float logit = 0.0F;  // one part has it, the others add zeros
    for (int64_t part = 0; part < parts; ++part) {
      const auto value = static_cast<double>(stats[part * stride]);
      sum += value == kNothing ? 0.0 : exp(value - largest_lse);
      logit += stats[part * stride + 2];
    }
    const Classes classes{largest_lse + log(sum), largest};
    args.lse[row] = static_cast<float>(classes.lse);
    losses[row] = row_loss(args.targets[row], classes, logit);
  }
}

// One block adds all rows' losses: loss (+)= scale * their sum.
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const RowLoss* losses, float* loss, int64_t rows, float scale, bool accumulate) {
  RowLoss sum{0.0, 0.0};
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    sum.loss += losses[row].loss;
    sum.right += losses[row].right;
  }
  sum.loss = group_reduce<kThreads>(sum.loss, Sum{});
  sum.right = group_reduce<kThreads>(sum.right, Sum{});
  if (threadIdx.x == 0) {
    const auto share = static_cast<float>(static_cast<double>(scale) * sum.loss);
    const auto right = static_cast<float>(static_cast<double>(scale) * sum.right);
    loss[0] = accumulate ? loss[0] + share : share;
    loss[1] = accumulate ? loss[1] + right : right;
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) backward_kernel(CrossEntropyBackward<Element> args) {
  const float factor = args.scale * args.state->loss_scale;
  const int64_t columns = args.columns;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const float shift = args.lse[row];
    const bool ignored = args.targets[row] < 0;
    const int64_t target = args.targets[row] - args.first;
    for (int64_t j = threadIdx.x; j < columns; j += kThreads) {
      const float p = factor * expf(widen(args.logits[row * args.stride + j]) - shift);
      const float gradient = j == target ? p - factor : p;
      args.dlogits[row * args.stride + j] = narrow<Element>(ignored ? 0.0F : gradient);
    }
  }
}

// The same arguments with the stride as a number of elements, for a kernel.
template <typename Args>
Args with_stride(const char* kernel, Args args, int64_t columns) {
  args.stride = checked_stride(kernel, args.rows, columns, args.stride);
  return args;
}

RowLoss* losses_of_rows(Stream& stream, int64_t rows) {
  return static_cast<RowLoss*>(
      cuda_stream(stream).scratch(rows * static_cast<int64_t>(sizeof(RowLoss))));
}

}  // namespace

template <typename Element>
void cross_entropy_forward(Stream& stream, const CrossEntropyForward<Element>& args) {
  check_classes("cross_entropy", args.rows, args.vocab, 0);
  const auto strided = with_stride("cross_entropy", args, args.vocab);
  RowLoss* losses = losses_of_rows(stream, args.rows);
  launch(stream, forward_kernel<Element>, grid_of(args.rows), kThreads, strided, losses);
  launch(stream, loss_kernel, 1, kThreads, losses, args.loss, args.rows, args.scale,
         args.accumulate);
}

template <typename Element>
void cross_entropy_stats(Stream& stream, const CrossEntropyStats<Element>& args) {
  check_classes("cross_entropy_stats", args.rows, args.columns, args.first);
  launch(stream, stats_kernel<Element>, grid_of(args.rows), kThreads,
         with_stride("cross_entropy_stats", args, args.columns));
}

void cross_entropy_merge(Stream& stream, const CrossEntropyMerge& args) {
  check_extents("cross_entropy_merge", {args.parts, args.rows, kStats});
  RowLoss* losses = losses_of_rows(stream, args.rows);
  launch(stream, merge_kernel, blocks_for(args.rows, kThreads), kThreads, args, losses);
  launch(stream, loss_kernel, 1, kThreads, losses, args.loss, args.rows, args.scale,
         args.accumulate);
}

template <typename Element>
void cross_entropy_backward(Stream& stream, const CrossEntropyBackward<Element>& args) {
  check_classes("cross_entropy_backward", args.rows, args.columns, args.first);
  launch(stream, backward_kernel<Element>, blocks_for(args.rows, 1), kThreads,
         with_stride("cross_entropy_backward", args, args.columns));
}

#define INSTANTIATE(Element)                                                        \
  template decltype(cross_entropy_forward<Element>) cross_entropy_forward<Element>; \
  template decltype(cross_entropy_stats<Element>) cross_entropy_stats<Element>;     \
  template decltype(cross_entropy_backward<Element>) cross_entropy_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
