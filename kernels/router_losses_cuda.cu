#include "kernels/cuda_columns.h"
#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"
#include "kernels/router_losses.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

constexpr int kTokens = kThreads / kWarp;  // tokens of a block; one per warp

// Returns the log-sum-exp of a token's logits, by a warp.
template <typename Element>
__device__ float log_sum_exp(const Element* x, int64_t experts) {
  float largest = -kInfinity;
  for (int64_t e = threadIdx.x % kWarp; e < experts; e += kWarp) {
    largest = fmaxf(largest, widen(x[e]));
  }
  largest = warp_reduce(largest, Max{});
  float sum = 0.0F;
  for (int64_t e = threadIdx.x % kWarp; e < experts; e += kWarp) {
    sum += expf(widen(x[e]) - largest);
  }
  return largest + logf(warp_reduce(sum, Sum{}));
}

template <typename Element>
__global__ void __launch_bounds__(kThreads) lse_kernel(RouterSums<Element> args, float* lse) {
  for (int64_t t = thread_of_grid() / kWarp; t < args.tokens; t += threads_of_grid() / kWarp) {
    const float value = log_sum_exp(args.logits + t * args.experts, args.experts);
    if (threadIdx.x % kWarp == 0) {
      lse[t] = value;
    }
  }
}

// partials[block, 3, experts] = the sums over the tokens of a block.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    partials_kernel(RouterSums<Element> args, const float* lse, float* partials, RowBlocks blocks) {
  const int64_t e = int64_t{blockIdx.x} * kSumColumns + threadIdx.x % kSumColumns;
  const int64_t first = blocks.begin(blockIdx.y) + threadIdx.x / kSumColumns;
  float probability = 0.0F;
  float count = 0.0F;
  float squares = 0.0F;
  for (int64_t t = first; e < args.experts && t < blocks.end(blockIdx.y); t += kSumRows) {
    const int32_t* entries = args.routing + t * args.choices;
    probability += expf(widen(args.logits[t * args.experts + e]) - lse[t]);
    for (int64_t c = 0; c < args.counted; ++c) {
      count += expert_of(entries[c], args.capacity) == e ? 1.0F : 0.0F;
    }
    squares += expert_of(entries[0], args.capacity) == e ? lse[t] * lse[t] : 0.0F;
  }
  probability = sum_of_column(probability);
  count = sum_of_column(count);
  squares = sum_of_column(squares);
  if (e < args.experts && threadIdx.x < kSumColumns) {
    float* sums = partials + blockIdx.y * 3 * args.experts + e;
    sums[0] = probability;
    sums[args.experts] = count;
    sums[2 * args.experts] = squares;
  }
}

// A warp handles a token.
template <typename Element>
__global__ void __launch_bounds__(kThreads) backward_kernel(RouterLossesBackward<Element> args) {
  const int64_t experts = args.experts;
  const float factor = args.state->loss_scale / static_cast<float>(args.all_tokens);
  const float balance =
      args.balance / (static_cast<float>(args.all_tokens) * static_cast<float>(args.counted));
  const float* counts = args.sums + experts;
  for (int64_t t = thread_of_grid() / kWarp; t < args.tokens; t += threads_of_grid() / kWarp) {
    const Element* x = args.logits + t * experts;
    Element* dx = args.dlogits + t * experts;
    const float lse = log_sum_exp(x, experts);
    float mean = 0.0F;
    for (int64_t e = threadIdx.x % kWarp; e < experts; e += kWarp) {
      mean += counts[e] * expf(widen(x[e]) - lse);
    }
    mean = warp_reduce(mean, Sum{});
    const float shift = 2.0F * args.z * lse;
    for (int64_t j = threadIdx.x % kWarp; j < experts; j += kWarp) {
      const float p = expf(widen(x[j]) - lse);
      const float gradient = factor * p * (balance * (counts[j] - mean) + shift);
      dx[j] = narrow<Element>(args.accumulate ? widen(dx[j]) + gradient : gradient);
    }
  }
}

}  // namespace

template <typename Element>
void router_sums(Stream& stream, const RouterSums<Element>& args) {
  check_size(args);
  const int64_t n = 3 * args.experts;
  const RowBlocks blocks(n == 0 ? 0 : args.tokens);
  auto* lse = static_cast<float*>(cuda_stream(stream).scratch((args.tokens + blocks.count * n) *
                                                              static_cast<int64_t>(sizeof(float))));
  float* partials = lse + args.tokens;
  if (n > 0) {
    launch(stream, lse_kernel<Element>, blocks_for(args.tokens, kTokens), kThreads, args, lse);
  }
  const dim3 grid = grid_of(ceil_div(args.experts, kSumColumns), blocks.count);
  launch(stream, partials_kernel<Element>, grid, kThreads, args, lse, partials, blocks);
  add_partials(stream, partials, blocks.count, n, args.sums, nullptr, false);
}

template <typename Element>
void router_losses_backward(Stream& stream, const RouterLossesBackward<Element>& args) {
  check_size(args);
  if (args.experts > 0) {
    launch(stream, backward_kernel<Element>, blocks_for(args.tokens, kTokens), kThreads, args);
  }
}

HIDUP_INSTANTIATE(router_sums);
HIDUP_INSTANTIATE(router_losses_backward);

}  // namespace hidup::kernels
