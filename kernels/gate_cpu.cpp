#include "kernels/gate.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/gate_math.h"
#include "kernels/preconditions.h"
#include "kernels/routing.h"

namespace hidup::kernels {
namespace {

// A token: its row of logits and its routing entries.
template <typename Element>
struct Token {
  Token(const Element* logits, const int32_t* routing, const GateSize& gate, int64_t index)
      : x(logits + index * gate.experts), entries(routing + index * gate.choices), size(gate) {}

  int64_t expert(int64_t c) const { return expert_of(entries[c], size.capacity); }
  float logit(int64_t c) const { return float{x[expert(c)]}; }
  float score(int64_t c) const { return log_score(logit(c), size.sigmoid); }

  const Element* x;
  const int32_t* entries;
  const GateSize& size;
};

// weights[c] = p[e_c]
template <typename Element>
void probabilities(const Token<Element>& token, float* weights) {
  const Element* x = token.x;
  const float largest = max_of(x, token.size.experts);
  const float sum = sum_of(token.size.experts, [=](int64_t e) { return fast_exp(x[e] - largest); });
  for (int64_t c = 0; c < token.size.choices; ++c) {
    weights[c] = fast_exp(x[token.expert(c)] - largest) / sum;
  }
}

// weights[c] = sigmoid(x[e_c])
template <typename Element>
void sigmoids(const Token<Element>& token, float* weights) {
  for (int64_t c = 0; c < token.size.choices; ++c) {
    weights[c] = sigmoid_of(token.logit(c));
  }
}

// Computes p[e_c] / (p[e_0] + p[e_1] + ...), in which the other experts cancel.
template <typename Element>
void normalized(const Token<Element>& token, float* weights) {
  const int64_t choices = token.size.choices;
  float largest = weights[0] = token.score(0);
  for (int64_t c = 1; c < choices; ++c) {
    weights[c] = token.score(c);
    largest = std::max(largest, weights[c]);
  }
  float sum = 0.0F;
  for (int64_t c = 0; c < choices; ++c) {
    weights[c] = fast_exp(weights[c] - largest);
    sum += weights[c];
  }
  for (int64_t c = 0; c < choices; ++c) {
    weights[c] /= sum;
  }
}

// dx[j] = the sum over c of dweights[c] * p[e_c] * ([j = e_c] - p[j])
template <typename Element>
void probabilities_backward(const Token<Element>& token, const float* dweights, float* dx) {
  const Element* x = token.x;
  const int64_t experts = token.size.experts;
  const float largest = max_of(x, experts);
  const float factor =
      1.0F / sum_of(experts, [=](int64_t e) { return dx[e] = fast_exp(x[e] - largest); });
  thread_local std::vector<float> memory;
  float* shares = scratch(memory, token.size.choices);
  float total = 0.0F;
  for (int64_t c = 0; c < token.size.choices; ++c) {
    shares[c] = token.size.scale * dweights[c] * dx[token.expert(c)] * factor;
    total += shares[c];
  }
#pragma omp simd
  for (int64_t j = 0; j < experts; ++j) {
    dx[j] *= -total * factor;
  }
  for (int64_t c = 0; c < token.size.choices; ++c) {
    dx[token.expert(c)] += shares[c];
  }
}

// dx[e_c] = dweights[c] * p[e_c] * (1 - p[e_c])
template <typename Element>
void sigmoids_backward(const Token<Element>& token, const float* dweights, float* dx) {
  std::fill_n(dx, token.size.experts, 0.0F);
  for (int64_t c = 0; c < token.size.choices; ++c) {
    const float x = token.logit(c);
    dx[token.expert(c)] += token.size.scale * dweights[c] * sigmoid_of(x) * sigmoid_of(-x);
  }
}

// dx[e_c] = the score's slope times the sum over i of w[c] * w[i] * (dweights[c] - dweights[i]):
// differences, because the weights' common part cancels. Adds up the choices of an expert that is
// chosen several times.
template <typename Element>
void normalized_backward(const Token<Element>& token, const float* dweights, float* dx) {
  thread_local std::vector<float> memory;
  float* weights = scratch(memory, token.size.choices);
  normalized(token, weights);
  std::fill_n(dx, token.size.experts, 0.0F);
  for (int64_t c = 0; c < token.size.choices; ++c) {
    float sum = 0.0F;
    for (int64_t i = 0; i < token.size.choices; ++i) {
      sum += weights[c] * weights[i] * (dweights[c] - dweights[i]);
    }
    dx[token.expert(c)] +=
        token.size.scale * sum * log_score_slope(token.logit(c), token.size.sigmoid);
  }
}

bool normalizes(const GateSize& size) {
  return size.normalize && size.choices > 1;
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
    for_each(size.tokens, [&](int64_t t) {
      const Token<Element> token(logits, routing, size, t);
      float* mine = weights + t * size.choices;
      if (normalizes(size)) {
        normalized(token, mine);
      } else if (size.sigmoid) {
        sigmoids(token, mine);
      } else {
        probabilities(token, mine);
      }
      for (int64_t c = 0; c < size.choices; ++c) {
        mine[c] *= size.scale;
      }
    });
  });
}

template <typename Element>
void gate_backward(Stream& stream, const Element* logits, const int32_t* routing,
                   const float* dweights, Element* dlogits, GateSize size) {
  check_size(size);
  stream.enqueue([=] {
    const int64_t tokens = size.experts == 0 ? 0 : size.tokens;
    for_each(tokens, [&](int64_t t) {
      const Token<Element> token(logits, routing, size, t);
      thread_local std::vector<float> memory;
      float* dx = sums_for(dlogits + t * size.experts, size.experts, memory);
      if (normalizes(size)) {
        normalized_backward(token, dweights + t * size.choices, dx);
      } else if (size.sigmoid) {
        sigmoids_backward(token, dweights + t * size.choices, dx);
      } else {
        probabilities_backward(token, dweights + t * size.choices, dx);
      }
      round_to(dx, size.experts, dlogits + t * size.experts);
    });
  });
}

HIDUP_INSTANTIATE(gate_forward);
HIDUP_INSTANTIATE(gate_backward);

}  // namespace hidup::kernels
