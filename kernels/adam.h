// Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), as in PyTorch without amsgrad.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "kernels/elements.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

struct AdamOptions {
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
  bool decoupled;  // AdamW: the decay acts on the parameter instead of the gradient
};

// A parameter, or a rank's part of one. All arrays are [n], f32 except for `rounded`; m and v are
// zero before the first step.
template <typename Element>
struct AdamPart {
  float* parameter;
  const float* gradient;
  float* m;
  float* v;
  int64_t n;
  bool decays;                 // otherwise its weight_decay is 0
  Element* rounded = nullptr;  // gets the new parameter, rounded; null: not wanted
};

// Updates the parts, which do not overlap. Takes step t = state->step - state->skipped (1 for the
// first) at lr = state->learning_rate, both read when the work runs:
//   g = gradient * gradient_scale[0]
//   decoupled: p -= lr * weight_decay * p, else g += weight_decay * p
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
// A scale that is not finite leaves p, m and v unchanged. `parts` must stay until the work has run.
template <typename Element>
void adam_update(Stream& stream, std::span<const AdamPart<Element>> parts,
                 const AdamOptions& options, const StepState* state, const float* gradient_scale);

}  // namespace hidup::kernels
