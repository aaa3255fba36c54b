#include "kernels/cuda_elements.h"
#include "kernels/cuda_routing.h"
#include "kernels/gate.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int kTokens = kThreads / kWarp;  // of a block; a warp does one

struct Weights {
  float first;
  float second;
};

// exp(x[e] - shift) summed over the experts, by a warp.
template <typename Element>
__device__ float sum_of_exponentials(const Element* x, int64_t experts, float shift) {
  float sum = 0.0F;
  for (int64_t e = threadIdx.x % kWarp; e < experts; e += kWarp) {
    sum += expf(widen(x[e]) - shift);
  }
  return warp_reduce(sum, Sum{});
}

template <typename Element>
__device__ float largest_of(const Element* x, int64_t experts) {
  float largest = -kInfinity;
  for (int64_t e = threadIdx.x % kWarp; e < experts; e += kWarp) {
    largest = fmaxf(largest, widen(x[e]));
  }
  return warp_reduce(largest, Max{});
}

// The other experts cancel in p[e_0] / (p[e_0] + p[e_1]).
__device__ Weights weights_of_two(float x0, float x1) {
  const float largest = x0 > x1 ? x0 : x1;
  const float p0 = expf(x0 - largest);
  const float p1 = expf(x1 - largest);
  return {p0 / (p0 + p1), p1 / (p0 + p1)};
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Element* logits, const int32_t* routing, float* weights, GateSize size) {
  const bool writes = threadIdx.x % kWarp == 0;
  for (int64_t t = thread_of_grid() / kWarp; t < size.tokens; t += threads_of_grid() / kWarp) {
    const Element* x = logits + t * size.experts;
    const int32_t* entries = routing + t * size.choices;
    const int64_t e0 = expert_of(entries[0], size.capacity);
    if (size.choices == 1) {
      const float largest = largest_of(x, size.experts);
      const float sum = sum_of_exponentials(x, size.experts, largest);
      if (writes) {
        weights[t] = expf(widen(x[e0]) - largest) / sum;
      }
    } else if (writes) {
      const int64_t e1 = expert_of(entries[1], size.capacity);
      const Weights both = weights_of_two(widen(x[e0]), widen(x[e1]));
      weights[2 * t] = both.first;
      weights[2 * t + 1] = both.second;
    }
  }
}

// dx[j] = dweight * p[e] * ([j = e] - p[j])
template <typename Element>
__device__ void backward_one(const Element* x, int64_t experts, int64_t e, float dweight,
                             Element* dx) {
  const float largest = largest_of(x, experts);
  const float factor = 1.0F / sum_of_exponentials(x, experts, largest);
  const float share = dweight * expf(widen(x[e]) - largest) * factor;
  for (int64_t j = threadIdx.x % kWarp; j < experts; j += kWarp) {
    const float others = -share * factor * expf(widen(x[j]) - largest);
    dx[j] = narrow<Element>(j == e ? others + share : others);
  }
}

// Both choices may be the same expert: then its gradient is zero.
template <typename Element>
__device__ void backward_two(const Element* x, int64_t experts, int64_t e0, int64_t e1,
                             const float* dweights, Element* dx) {
  const Weights both = weights_of_two(widen(x[e0]), widen(x[e1]));
  const float share = both.first * both.second * (dweights[0] - dweights[1]);
  for (int64_t j = threadIdx.x % kWarp; j < experts; j += kWarp) {
    dx[j] = narrow<Element>((j == e0 ? share : 0.0F) - (j == e1 ? share : 0.0F));
  }
}

template <typename Element>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const Element* logits, const int32_t* routing, const float* dweights,
                    Element* dlogits, GateSize size) {
  for (int64_t t = thread_of_grid() / kWarp; t < size.tokens; t += threads_of_grid() / kWarp) {
    const Element* x = logits + t * size.experts;
    Element* dx = dlogits + t * size.experts;
    const int32_t* entries = routing + t * size.choices;
    const int64_t e0 = expert_of(entries[0], size.capacity);
    if (size.choices == 1) {
      backward_one(x, size.experts, e0, dweights[t], dx);
    } else {
      backward_two(x, size.experts, e0, expert_of(entries[1], size.capacity), dweights + 2 * t, dx);
    }
  }
}

}  // namespace

template <typename Element>
void gate_forward(Stream& stream, const Element* logits, const int32_t* routing, float* weights,
                  GateSize size) {
  check_size(size);
  if (size.experts == 0) {
    fill_bytes(stream, weights, 0,
               size.tokens * size.choices * static_cast<int64_t>(sizeof(float)));
    return;
  }
  launch(stream, forward_kernel<Element>, blocks_for(size.tokens, kTokens), kThreads, logits,
         routing, weights, size);
}

template <typename Element>
void gate_backward(Stream& stream, const Element* logits, const int32_t* routing,
                   const float* dweights, Element* dlogits, GateSize size) {
  check_size(size);
  if (size.experts == 0) {
    return;
  }
  launch(stream, backward_kernel<Element>, blocks_for(size.tokens, kTokens), kThreads, logits,
         routing, dweights, dlogits, size);
}

#define INSTANTIATE(Element)                                      \
  template decltype(gate_forward<Element>) gate_forward<Element>; \
  template decltype(gate_backward<Element>) gate_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
