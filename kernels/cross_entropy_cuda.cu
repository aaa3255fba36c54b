#include "kernels/cross_entropy.h"
#include "kernels/cuda_elements.h"

namespace hidup::kernels {
namespace {

// log of the sum of exp(x), by a block; -infinity if there is no x. The threads' sums are short and
// in single precision, those over threads in double, for a vocabulary may be large.
template <typename Element>
__device__ double log_sum_exp(const Element* x, int64_t n) {
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
  return static_cast<double>(largest) + log(total);
}

// A block does a row.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Element* logits, const int32_t* targets, float* lse, double* losses,
                   int64_t vocab) {
  const int64_t row = blockIdx.x;
  const Element* x = logits + row * vocab;
  const double value = log_sum_exp(x, vocab);
  if (threadIdx.x == 0) {
    lse[row] = static_cast<float>(value);
    losses[row] = value - static_cast<double>(widen(x[targets[row]]));
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    stats_kernel(const Element* logits, const int32_t* targets, float* stats, int64_t columns,
                 int64_t first) {
  const int64_t row = blockIdx.x;
  const Element* x = logits + row * columns;
  const double value = log_sum_exp(x, columns);
  if (threadIdx.x == 0) {
    const int64_t target = targets[row] - first;
    stats[2 * row] = static_cast<float>(value);
    stats[2 * row + 1] = target >= 0 && target < columns ? widen(x[target]) : 0.0F;
  }
}

// A thread does a row.
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const float* stats, float* lse, double* losses, int64_t parts, int64_t rows) {
  constexpr auto kNothing = static_cast<double>(-kInfinity);
  for (int64_t row = thread_of_grid(); row < rows; row += threads_of_grid()) {
    double largest = kNothing;
    for (int64_t part = 0; part < parts; ++part) {
      largest = fmax(largest, static_cast<double>(stats[2 * (part * rows + row)]));
    }
    double sum = 0.0;
    double logit = 0.0;
    for (int64_t part = 0; part < parts; ++part) {
      const auto value = static_cast<double>(stats[2 * (part * rows + row)]);
      sum += value == kNothing ? 0.0 : exp(value - largest);
      logit += static_cast<double>(stats[2 * (part * rows + row) + 1]);
    }
    const double value = largest + log(sum);
    lse[row] = static_cast<float>(value);
    losses[row] = value - logit;
  }
}

// One block adds all rows' losses: loss (+)= scale * their sum.
__global__ void __launch_bounds__(kThreads)
    loss_kernel(const double* losses, float* loss, int64_t rows, float scale, bool accumulate) {
  double sum = 0.0;
  for (int64_t row = threadIdx.x; row < rows; row += kThreads) {
    sum += losses[row];
  }
  sum = group_reduce<kThreads>(sum, Sum{});
  if (threadIdx.x == 0) {
    const auto share = static_cast<float>(static_cast<double>(scale) * sum);
    *loss = accumulate ? *loss + share : share;
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const Element* logits, const int32_t* targets, const float* lse,
                    Element* dlogits, int64_t rows, int64_t columns, int64_t first, float scale,
                    const StepState* state) {
  const float factor = scale * state->loss_scale;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float shift = lse[row];
    const int64_t target = targets[row] - first;
    for (int64_t j = threadIdx.x; j < columns; j += kThreads) {
      const float p = factor * expf(widen(logits[row * columns + j]) - shift);
      dlogits[row * columns + j] = narrow<Element>(j == target ? p - factor : p);
    }
  }
}

double* losses_of_rows(Stream& stream, int64_t rows) {
  return static_cast<double*>(
      cuda_stream(stream).scratch(rows * static_cast<int64_t>(sizeof(double))));
}

}  // namespace

template <typename Element>
void cross_entropy_forward(Stream& stream, const Element* logits, const int32_t* targets,
                           float* lse, float* loss, int64_t rows, int64_t vocab, float scale,
                           bool accumulate) {
  double* losses = losses_of_rows(stream, rows);
  launch(stream, forward_kernel<Element>, static_cast<unsigned>(rows), kThreads, logits, targets,
         lse, losses, vocab);
  launch(stream, loss_kernel, 1, kThreads, losses, loss, rows, scale, accumulate);
}

template <typename Element>
void cross_entropy_stats(Stream& stream, const Element* logits, const int32_t* targets,
                         float* stats, int64_t rows, int64_t columns, int64_t first) {
  launch(stream, stats_kernel<Element>, static_cast<unsigned>(rows), kThreads, logits, targets,
         stats, columns, first);
}

void cross_entropy_merge(Stream& stream, const float* stats, float* lse, float* loss, int64_t parts,
                         int64_t rows, float scale, bool accumulate) {
  double* losses = losses_of_rows(stream, rows);
  launch(stream, merge_kernel, blocks_for(rows, kThreads), kThreads, stats, lse, losses, parts,
         rows);
  launch(stream, loss_kernel, 1, kThreads, losses, loss, rows, scale, accumulate);
}

template <typename Element>
void cross_entropy_backward(Stream& stream, const Element* logits, const int32_t* targets,
                            const float* lse, Element* dlogits, int64_t rows, int64_t columns,
                            int64_t first, float scale, const StepState* state) {
  launch(stream, backward_kernel<Element>, blocks_for(rows, 1), kThreads, logits, targets, lse,
         dlogits, rows, columns, first, scale, state);
}

#define INSTANTIATE(Element)                                                        \
  template decltype(cross_entropy_forward<Element>) cross_entropy_forward<Element>; \
  template decltype(cross_entropy_stats<Element>) cross_entropy_stats<Element>;     \
  template decltype(cross_entropy_backward<Element>) cross_entropy_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
