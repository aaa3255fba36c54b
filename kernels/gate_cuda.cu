#include "kernels/cuda_elements.h"
#include "kernels/gate.h"
#include "kernels/gate_math.h"
#include "kernels/preconditions.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

constexpr int kTokens = kThreads / kWarp;  // tokens of a block; one per warp

__host__ __device__ bool normalizes(const GateSize& size) {
  return size.normalize && size.choices > 1;
}

// Returns the sum of exp(x[e] - shift) over the experts, by a warp.
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

// Terms of p[e_c] / (p[e_0] + p[e_1] + ...) = exp(score - largest) / sum; other experts cancel.
struct Normalized {
  float largest;
  float sum;
};
template <bool kSigmoid, typename Element>
__device__ float score_of(const Element* x, int32_t entry, const GateSize& size) {
  return log_score(widen(x[expert_of(entry, size.capacity)]), kSigmoid);
}
template <bool kSigmoid, typename Element>
__device__ Normalized normalized(const Element* x, const int32_t* entries, const GateSize& size) {
  Normalized over = {-kInfinity, 0.0F};
  for (int64_t c = 0; c < size.choices; ++c) {
    over.largest = fmaxf(over.largest, score_of<kSigmoid>(x, entries[c], size));
  }
  for (int64_t c = 0; c < size.choices; ++c) {
    over.sum += expf(score_of<kSigmoid>(x, entries[c], size) - over.largest);
  }
  return over;
}

template <typename Element, bool kSigmoid>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const Element* logits, const int32_t* routing, float* weights, GateSize size) {
  const bool sigmoids = kSigmoid && !normalizes(size);
  for (int64_t t = thread_of_grid() / kWarp; t < size.tokens; t += threads_of_grid() / kWarp) {
    const Element* x = logits + t * size.experts;
    const int32_t* entries = routing + t * size.choices;
    Normalized over = {};
    if (normalizes(size)) {
      over = normalized<kSigmoid>(x, entries, size);
    } else if (!sigmoids) {
      over.largest = largest_of(x, size.experts);
      over.sum = sum_of_exponentials(x, size.experts, over.largest);
    }
    for (int64_t c = threadIdx.x % kWarp; c < size.choices; c += kWarp) {
      const int64_t e = expert_of(entries[c], size.capacity);
      const float weight =
          sigmoids ? sigmoid_of(widen(x[e]))
                   : expf(score_of<kSigmoid>(x, entries[c], size) - over.largest) / over.sum;
      weights[t * size.choices + c] = size.scale * weight;
    }
  }
}

// dx[j] = the sum over c of dweights[c] * p[e_c] * ([j = e_c] - p[j])
template <typename Element>
__device__ void probabilities_backward(const Element* x, const int32_t* entries,
                                       const float* dweights, Element* dx, const GateSize& size) {
  const float largest = largest_of(x, size.experts);
  const float factor = 1.0F / sum_of_exponentials(x, size.experts, largest);
  float total = 0.0F;
  for (int64_t c = 0; c < size.choices; ++c) {
    const int64_t e = expert_of(entries[c], size.capacity);
    total += dweights[c] * expf(widen(x[e]) - largest) * factor;
  }
  for (int64_t j = threadIdx.x % kWarp; j < size.experts; j += kWarp) {
    const float exponential = expf(widen(x[j]) - largest);
    float sum = -total * factor * exponential;
    for (int64_t c = 0; c < size.choices; ++c) {
      if (expert_of(entries[c], size.capacity) == j) {
        sum += dweights[c] * exponential * factor;
      }
    }
    dx[j] = narrow<Element>(size.scale * sum);
  }
}

// dx[e_c] = dweights[c] * p[e_c] * (1 - p[e_c])
template <typename Element>
__device__ void sigmoids_backward(const Element* x, const int32_t* entries, const float* dweights,
                                  Element* dx, const GateSize& size) {
  for (int64_t j = threadIdx.x % kWarp; j < size.experts; j += kWarp) {
    const float slope = sigmoid_of(widen(x[j])) * sigmoid_of(-widen(x[j]));
    float sum = 0.0F;
    for (int64_t c = 0; c < size.choices; ++c) {
      sum += expert_of(entries[c], size.capacity) == j ? dweights[c] * slope : 0.0F;
    }
    dx[j] = narrow<Element>(size.scale * sum);
  }
}

// dx[e_c] = the score's slope times the sum over i of w[c] * w[i] * (dweights[c] - dweights[i]).
// Adds up the choices of an expert that is chosen several times.
template <bool kSigmoid, typename Element>
__device__ void normalized_backward(const Element* x, const int32_t* entries, const float* dweights,
                                    Element* dx, const GateSize& size) {
  const Normalized over = normalized<kSigmoid>(x, entries, size);
  const float factor = 1.0F / over.sum;
  const auto weight = [&](int64_t c) {
    return expf(score_of<kSigmoid>(x, entries[c], size) - over.largest) * factor;
  };
  for (int64_t j = threadIdx.x % kWarp; j < size.experts; j += kWarp) {
    float sum = 0.0F;
    for (int64_t c = 0; c < size.choices; ++c) {
      if (expert_of(entries[c], size.capacity) != j) {
        continue;
      }
      const float mine = weight(c);
      for (int64_t i = 0; i < size.choices; ++i) {
        sum += mine * weight(i) * (dweights[c] - dweights[i]);
      }
    }
    dx[j] = narrow<Element>(size.scale * sum * log_score_slope(widen(x[j]), kSigmoid));
  }
}

template <typename Element, bool kSigmoid>
__global__ void __launch_bounds__(kThreads, 4)
    backward_kernel(const Element* logits, const int32_t* routing, const float* dweights,
                    Element* dlogits, GateSize size) {
  for (int64_t t = thread_of_grid() / kWarp; t < size.tokens; t += threads_of_grid() / kWarp) {
    const Element* x = logits + t * size.experts;
    const int32_t* entries = routing + t * size.choices;
    const float* dw = dweights + t * size.choices;
    Element* dx = dlogits + t * size.experts;
    if (normalizes(size)) {
      normalized_backward<kSigmoid>(x, entries, dw, dx, size);
    } else if constexpr (kSigmoid) {
      sigmoids_backward(x, entries, dw, dx, size);
    } else {
      probabilities_backward(x, entries, dw, dx, size);
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
  const auto kernel = size.sigmoid ? forward_kernel<Element, true> : forward_kernel<Element, false>;
  launch(stream, kernel, blocks_for(size.tokens, kTokens), kThreads, logits, routing, weights,
         size);
}

template <typename Element>
void gate_backward(Stream& stream, const Element* logits, const int32_t* routing,
                   const float* dweights, Element* dlogits, GateSize size) {
  check_size(size);
  if (size.experts == 0) {
    return;
  }
  const auto kernel =
      size.sigmoid ? backward_kernel<Element, true> : backward_kernel<Element, false>;
  launch(stream, kernel, blocks_for(size.tokens, kTokens), kThreads, logits, routing, dweights,
         dlogits, size);
}

HIDUP_INSTANTIATE(gate_forward);
HIDUP_INSTANTIATE(gate_backward);

}  // namespace hidup::kernels
