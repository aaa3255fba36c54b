#include "kernels/cross_entropy.h"
#include "kernels/cuda_elements.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kStats = 3;  // numbers per row and part of the classes

// The log-sum-exp and the maximum of a row's logits x; -infinity if there are none.
struct Classes {
  double lse;
  float largest;
};

// A thread's statistics of the logits x of a row so far: the maximum, and the sum of exp(x - max).
template <typename Element>
struct Seen {
  float largest = -kInfinity;
  float sum = 0.0F;

  __device__ void add(const Vector<Element>& x) {
    float most = largest;
    for (int e = 0; e < kPerVector<Element>; ++e) {
      most = fmaxf(most, widen(x.element[e]));
    }
    const float shift =
        most == -kInfinity ? 0.0F : most;  // only -infinity, whose exp is 0, and NaN so far
    float added = 0.0F;
    for (int e = 0; e < kPerVector<Element>; ++e) {
      added += expf(widen(x.element[e]) - shift);
    }
    sum = sum * expf(largest - shift) + added;
    largest = most;
  }
};

// `vectors`: x may be read by vectors. The assignment of elements to threads does not depend on it.
template <typename Element>
__device__ Seen<Element> seen_of(const Element* x, int64_t n, bool vectors) {
  constexpr int kCount = kPerVector<Element>;
  const int64_t whole = n / kCount;
  const auto gather = [=](int64_t v) {  // -infinity beyond the row adds nothing
    Vector<Element> gathered;
    for (int e = 0; e < kCount; ++e) {
      const int64_t j = kCount * v + e;
      gathered.element[e] = j < n ? x[j] : narrow<Element>(-kInfinity);
    }
    return gathered;
  };
  Seen<Element> seen;
  for (int64_t v = threadIdx.x; v < whole; v += kThreads) {
    seen.add(vectors ? load_vector(x + kCount * v) : gather(v));
  }
  if (kCount * whole < n && threadIdx.x == whole % kThreads) {
    seen.add(gather(whole));
  }
  return seen;
}

// Runs on a block, which reads the logits once (Milakov and Gimelshein 2018). A thread's sum is
// short and in single precision; the sum over threads is in double for large vocabularies.
template <typename Element>
__device__ Classes classes_of(const Element* x, int64_t n, bool vectors) {
  const Seen<Element> seen = seen_of(x, n, vectors);
  const float largest = group_reduce<kThreads>(seen.largest, Max{});
  const float sum = n == 0 ? 0.0F : seen.sum * expf(seen.largest - largest);
  const double total = group_reduce<kThreads>(static_cast<double>(sum), Sum{});
  return {static_cast<double>(largest) + log(total), largest};
}

// A row's share of the loss and of the number of right rows.
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

// A block handles a row.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(CrossEntropyForward<Element> args, bool vectors, RowLoss* losses) {
  const int64_t row = blockIdx.x;
  const Element* x = args.logits + row * args.stride;
  const Classes classes = classes_of(x, args.vocab, vectors);
  if (threadIdx.x == 0) {
    args.lse[row] = static_cast<float>(classes.lse);
    const int32_t target = args.targets[row];
    losses[row] = row_loss(target, classes, target < 0 ? 0.0F : widen(x[target]));
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    stats_kernel(CrossEntropyStats<Element> args, bool vectors) {
  const int64_t row = blockIdx.x;
  const Element* x = args.logits + row * args.stride;
  const Classes classes = classes_of(x, args.columns, vectors);
  if (threadIdx.x == 0) {
    const int64_t target = args.targets[row] - args.first;
    const bool here = target >= 0 && target < args.columns;
    float* stats = args.stats + kStats * row;
    stats[0] = static_cast<float>(classes.lse);
    stats[1] = classes.largest;
    stats[2] = here ? widen(x[target]) : 0.0F;
  }
}

// A thread handles a row.
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
    float logit = 0.0F;  // one part has it, and the others add zeros
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

// One block adds up all rows: loss (+)= scale * their sum.
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

// Accesses `vectors` vectors of a row as such, and the elements after them one by one.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(CrossEntropyBackward<Element> args, int64_t vectors) {
  constexpr int kCount = kPerVector<Element>;
  const float factor = args.scale * args.state->loss_scale;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const Element* x = args.logits + row * args.stride;
    Element* dx = args.dlogits + row * args.stride;
    const float shift = args.lse[row];
    const bool ignored = args.targets[row] < 0;
    const int64_t target = args.targets[row] - args.first;
    const auto gradient = [=](Element logit, bool right) {
      const float p = factor * expf(widen(logit) - shift);
      return ignored ? 0.0F : right ? p - factor : p;
    };
    for (int64_t v = threadIdx.x; v < vectors; v += kThreads) {
      const Vector<Element> logits = load_vector(x + kCount * v);
      const int right = target / kCount == v ? static_cast<int>(target % kCount) : -1;
      float out[kCount];
      for (int e = 0; e < kCount; ++e) {
        out[e] = gradient(logits.element[e], e == right);
      }
      store_vector(dx + kCount * v, narrow<Element>(out));
    }
    for (int64_t j = kCount * vectors + threadIdx.x; j < args.columns; j += kThreads) {
      dx[j] = narrow<Element>(gradient(x[j], j == target));
    }
  }
}

// Returns the same arguments with the stride in elements, for a kernel.
template <typename Args>
Args with_stride(const char* kernel, Args args, int64_t columns) {
  args.stride = checked_stride(kernel, args.rows, columns, args.stride);
  return args;
}

// Returns true if all rows allow loads of 16 bytes.
template <typename Args, typename... Pointers>
bool rows_aligned16(const Args& strided, Pointers... rows) {
  return aligned16(rows...) &&
         strided.stride * static_cast<int64_t>(sizeof(*strided.logits)) % 16 == 0;
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
  launch(stream, forward_kernel<Element>, grid_of(args.rows), kThreads, strided,
         rows_aligned16(strided, args.logits), losses);
  launch(stream, loss_kernel, 1, kThreads, losses, args.loss, args.rows, args.scale,
         args.accumulate);
}

template <typename Element>
void cross_entropy_stats(Stream& stream, const CrossEntropyStats<Element>& args) {
  check_classes("cross_entropy_stats", args.rows, args.columns, args.first);
  const auto strided = with_stride("cross_entropy_stats", args, args.columns);
  launch(stream, stats_kernel<Element>, grid_of(args.rows), kThreads, strided,
         rows_aligned16(strided, args.logits));
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
  const auto strided = with_stride("cross_entropy_backward", args, args.columns);
  const bool aligned = rows_aligned16(strided, args.logits, args.dlogits);
  launch(stream, backward_kernel<Element>, blocks_for(args.rows, 1), kThreads, strided,
         aligned ? args.columns / kPerVector<Element> : 0);
}

HIDUP_INSTANTIATE(cross_entropy_forward);
HIDUP_INSTANTIATE(cross_entropy_stats);
HIDUP_INSTANTIATE(cross_entropy_backward);

}  // namespace hidup::kernels
