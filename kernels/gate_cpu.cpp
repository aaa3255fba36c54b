#include "kernels/gate.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu_math.h"
#include "kernels/cpu_routing.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// One token: its row of logits and the experts it chose.
template <typename Element>
struct Token {
  Token(const Element* logits, const int32_t* routing, const GateSize& size, int64_t index)
      : x(logits + index * size.experts), experts(size.experts) {
    for (int64_t c = 0; c < size.choices; ++c) {
      expert[c] = expert_of(routing[index * size.choices + c], size.capacity);
    }
  }

  const Element* x;
  int64_t experts;
  int64_t expert[2] = {0, 0};
};

// exponentials[e] = exp(x[e] - the largest), where asked for; returns their sum.
template <typename Element>
float exponentials(const Token<Element>& token, float largest, float* values) {
  const Element* x = token.x;
  return sum_of(token.experts, [=](int64_t e) { return values[e] = fast_exp(x[e] - largest); });
}

template <typename Element>
void forward_one(const Token<Element>& token, float* weight) {
  const Element* x = token.x;
  const float largest = max_of(x, token.experts);
  const float sum = sum_of(token.experts, [=](int64_t e) { return fast_exp(x[e] - largest); });
  *weight = fast_exp(x[token.expert[0]] - largest) / sum;
}

// The other experts cancel in p[e_0] / (p[e_0] + p[e_1]).
template <typename Element>
void forward_two(const Token<Element>& token, float* weights) {
  const float x0 = token.x[token.expert[0]];
  const float x1 = token.x[token.expert[1]];
  const float largest = std::max(x0, x1);
  const float p0 = fast_exp(x0 - largest);
  const float p1 = fast_exp(x1 - largest);
  weights[0] = p0 / (p0 + p1);
  weights[1] = p1 / (p0 + p1);
}

// dx[j] = dweight * p[e] * ([j = e] - p[j])
template <typename Element>
void backward_one(const Token<Element>& token, float dweight, float* dx) {
  const float factor = 1.0F / exponentials(token, max_of(token.x, token.experts), dx);
  const float share = dweight * dx[token.expert[0]] * factor;
#pragma omp simd
  for (int64_t j = 0; j < token.experts; ++j) {
    dx[j] *= -share * factor;
  }
  dx[token.expert[0]] += share;
}

// Both choices may be the same expert: then its gradient is zero.
template <typename Element>
void backward_two(const Token<Element>& token, const float* dweights, float* dx) {
  float weights[2];
  forward_two(token, weights);
  const float share = weights[0] * weights[1] * (dweights[0] - dweights[1]);
  std::fill_n(dx, token.experts, 0.0F);
  dx[token.expert[0]] += share;
  dx[token.expert[1]] -= share;
}

}  // namespace

template <typename Element>
void gate_forward(Stream& stream, const Element* logits, const int32_t* routing, float* weights,
                  GateSize size) {
  check_size(size);
  stream.enqueue([=] {
    if (size.experts == 0) {
      std::fill_n(weights, size.tokens * size.choices, 0.0F);
      return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < size.tokens; ++t) {
      const Token<Element> token(logits, routing, size, t);
      if (size.choices == 1) {
        forward_one(token, weights + t);
      } else {
        forward_two(token, weights + 2 * t);
      }
    }
  });
}

template <typename Element>
void gate_backward(Stream& stream, const Element* logits, const int32_t* routing,
                   const float* dweights, Element* dlogits, GateSize size) {
  check_size(size);
  stream.enqueue([=] {
    const int64_t tokens = size.experts == 0 ? 0 : size.tokens;
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < tokens; ++t) {
      const Token<Element> token(logits, routing, size, t);
      thread_local std::vector<float> memory;
      float* dx = sums_for(dlogits + t * size.experts, size.experts, memory);
      if (size.choices == 1) {
        backward_one(token, dweights[t], dx);
      } else {
        backward_two(token, dweights + 2 * t, dx);
      }
      round_to(dx, size.experts, dlogits + t * size.experts);
    }
  });
}

#define INSTANTIATE(Element)                                      \
  template decltype(gate_forward<Element>) gate_forward<Element>; \
  template decltype(gate_backward<Element>) gate_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
