// Mixing weights of a token's experts.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct GateSize {
  int64_t tokens;
  int64_t experts;
  int64_t choices;   // 1 or more
  int64_t capacity;  // decodes routing entries (route.h); dropped choices count, too
  // Makes the weights of several choices add up to `scale`.
  bool normalize = true;
  bool sigmoid = false;  // p is the sigmoid of each logit instead of the softmax
  float scale = 1.0F;
};

// With p = softmax(logits[t, :]), or sigmoid(logits[t, :]), and e_c the token's choices:
// weights[t, c] = scale * p[e_c] for one choice (Switch, Fedus et al. 2021) and for several
// unnormalized ones; otherwise scale * p[e_c] / (p[e_0] + p[e_1] + ...) (GShard, Lepikhin et al.
// 2020; with the sigmoid DeepSeek-V3, 2024, equations 13 to 16).
// logits: [tokens, experts]; routing: i32 [tokens, choices]; weights: f32 [tokens, choices].
template <typename Element>
void gate_forward(Stream& stream, const Element* logits, const int32_t* routing, float* weights,
                  GateSize size);

// dlogits: [tokens, experts], overwritten; dweights: f32 [tokens, choices].
template <typename Element>
void gate_backward(Stream& stream, const Element* logits, const int32_t* routing,
                   const float* dweights, Element* dlogits, GateSize size);

}  // namespace hidup::kernels
