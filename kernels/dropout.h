// Dropout: elements are zeroed with probability p, the others scaled by 1/(1-p).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/region.h"
#include "device/device.h"
#include "kernels/elements.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

// An element stays where its random word is that or more: uniform >= p, as a comparison of the
// words that uniform is made of.
inline uint32_t dropout_threshold(float p) {
  return static_cast<uint32_t>(std::ceil(p * 0x1p24F)) << 8;
}

// y = keep ? x / (1-p) : 0 with keep = (uniform >= p), where uniform is the number of the
// stream {key, state->step} at the element's row-major index in the global tensor: the
// mask does not depend on how the tensor is divided. x, y: [region.elements()], the
// part that `region` describes; y may be x. 0 <= p < 1. `state` is read when the work
// runs. The gradient is the same function of dy, with the same key in the same step.
template <typename Element>
void dropout(Stream& stream, const Element* x, Element* y, const Region& region, float p,
             uint64_t key, const StepState* state);

}  // namespace hidup::kernels
