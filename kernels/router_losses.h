// Sums over the router's logits for the auxiliary losses of a Mixture-of-Experts layer. With p =
// softmax(logits[t, :]), lse its log-sum-exp, and n[e] the choices of expert e before any is
// dropped, over all T tokens of the step:
//
//   balance loss = factor * sum over e of f[e] * P[e], f[e] = n[e] / (T * counted) and
//     P[e] = the mean of p[t, e]. Switch (Fedus et al. 2021, equations 4 to 6): all choices are
//     counted, the factor is the number of experts. GShard (Lepikhin et al. 2020, algorithm 1):
//     first choices only, the factor is 1 / experts.
//   z loss = the mean of lse[t]^2 (ST-MoE, Zoph et al. 2022, equation 5).
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

// Sums over some of the tokens:
// sums[0, e] = the sum of p[t, e];
// sums[1, e] = n[e], exact up to 2^24;
// sums[2, e] = the sum of lse[t]^2 over the tokens whose first choice is e.
template <typename Element>
struct RouterSums {
  const Element* logits;   // [tokens, experts]
  const int32_t* routing;  // i32 [tokens, choices], see route.h
  float* sums;             // f32 [3, experts]
  int64_t tokens;
  int64_t experts;
  int64_t choices;
  int64_t counted;  // the first ones of a token's choices
  int64_t capacity;
};
template <typename Element>
void router_sums(Stream& stream, const RouterSums<Element>& args);

// dlogits (+)= state->loss_scale / all_tokens * p[t, j] *
//   (balance * (f[j] - the sum over e of f[e] * p[t, e]) + 2 * z * lse[t]).
// f is a constant: choices have no gradient. `state` is read when the work runs.
template <typename Element>
struct RouterLossesBackward {
  const Element* logits;  // [tokens, experts]
  const float* sums;      // f32 [3, experts], of all tokens of the step
  Element* dlogits;       // like logits
  int64_t tokens;
  int64_t experts;
  int64_t all_tokens;
  int64_t counted;
  float balance;  // the loss's weight times its factor
  float z;        // the loss's weight
  bool accumulate;
  const StepState* state;
};
template <typename Element>
void router_losses_backward(Stream& stream, const RouterLossesBackward<Element>& args);

}  // namespace hidup::kernels
