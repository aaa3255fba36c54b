// Dropout: elements are zeroed with probability p, the others scaled by 1/(1-p).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/region.h"
#include "device/device.h"
#include "kernels/elements.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

// Returns the least random word of an element that stays: this is uniform >= p in terms of the
// words that uniform is made of.
inline uint32_t dropout_threshold(float p) {
  return static_cast<uint32_t>(std::ceil(p * 0x1p24F)) << 8;
}

// A mask of the elements that stay: those with uniform >= p, where uniform is the number of the
// stream {key, state->step} at the element's row-major index in the global tensor. So the mask does
// not depend on the tensor's sharding.
struct DropoutMask {
  Region region;   // the part of the tensor
  float p = 0.0F;  // 0 <= p < 1
  uint64_t key = 0;
  const StepState* state = nullptr;  // read when the work runs
};

// y = x / (1-p) where the mask keeps the element, else 0. x, y: [region.elements()]; y may be x.
// The gradient is the same function of dy, with the same key in the same step.
template <typename Element>
void dropout(Stream& stream, const Element* x, Element* y, const DropoutMask& mask);

}  // namespace hidup::kernels
