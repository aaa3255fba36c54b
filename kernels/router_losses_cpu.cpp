#include "kernels/router_losses.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu_columns.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

// p[e] = softmax(x)[e]; returns the log-sum-exp of x.
template <typename Element>
float softmax_of(const Element* x, int64_t experts, float* p) {
  const float largest = max_of(x, experts);
  const float sum = sum_of(experts, [=](int64_t e) { return p[e] = fast_exp(x[e] - largest); });
#pragma omp simd
  for (int64_t e = 0; e < experts; ++e) {
    p[e] /= sum;
  }
  return largest + std::log(sum);
}

template <typename Element>
void add_token(const RouterSums<Element>& args, int64_t t, float* sums) {
  thread_local std::vector<float> memory;
  float* p = scratch(memory, args.experts);
  const float lse = softmax_of(args.logits + t * args.experts, args.experts, p);
#pragma omp simd
  for (int64_t e = 0; e < args.experts; ++e) {
    sums[e] += p[e];
  }
  const int32_t* entries = args.routing + t * args.choices;
  for (int64_t c = 0; c < args.counted; ++c) {
    sums[args.experts + expert_of(entries[c], args.capacity)] += 1.0F;
  }
  sums[2 * args.experts + expert_of(entries[0], args.capacity)] += lse * lse;
}

}  // namespace

template <typename Element>
void router_sums(Stream& stream, const RouterSums<Element>& args) {
  check_size(args);
  stream.enqueue([=] {
    thread_local std::vector<float> memory;
    const int64_t n = 3 * args.experts;
    const RowBlocks blocks(n == 0 ? 0 : args.tokens);
    float* partials = scratch(memory, blocks.count * n);
    for_each(blocks.count, [&](int64_t block) {
      float* sums = partials + block * n;
      std::fill_n(sums, n, 0.0F);
      for (int64_t t = blocks.begin(block); t < blocks.end(block); ++t) {
        add_token(args, t, sums);
      }
    });
    add_partials(partials, blocks.count, n, args.sums, n, false);
  });
}

template <typename Element>
void router_losses_backward(Stream& stream, const RouterLossesBackward<Element>& args) {
  check_size(args);
  stream.enqueue([=] {
    const int64_t experts = args.experts;
    const float factor = args.state->loss_scale / static_cast<float>(args.all_tokens);
    const float balance =
        args.balance / (static_cast<float>(args.all_tokens) * static_cast<float>(args.counted));
    const float* counts = args.sums + experts;
    const int64_t tokens = experts == 0 ? 0 : args.tokens;
    for_each(tokens, [&](int64_t t) {
      thread_local std::vector<float> memory;
      float* p = scratch(memory, experts);
      const float lse = softmax_of(args.logits + t * experts, experts, p);
      const float mean = sum_of(experts, [=](int64_t e) { return counts[e] * p[e]; });
      const float shift = 2.0F * args.z * lse;
      Element* dx = args.dlogits + t * experts;
#pragma omp simd
      for (int64_t j = 0; j < experts; ++j) {
        const float gradient = factor * p[j] * (balance * (counts[j] - mean) + shift);
        dx[j] = args.accumulate ? dx[j] + gradient : gradient;
      }
    });
  });
}

HIDUP_INSTANTIATE(router_sums);
HIDUP_INSTANTIATE(router_losses_backward);

}  // namespace hidup::kernels
