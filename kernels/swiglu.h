// The gated linear unit with SiLU (Shazeer, "GLU variants improve transformer", 2020):
//   y = silu(gate) up,  silu as in activations.h
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y = silu(gate) up, elementwise; gate, up, y: [n]; y may be gate or up.
template <typename Element>
void swiglu_forward(Stream& stream, const Element* gate, const Element* up, Element* y, int64_t n);

//   dgate = dy up silu'(gate),  dup = dy silu(gate)
template <typename Element>
struct SwigluBackward {
  const Element* gate;  // [n]
  const Element* up;    // [n]
  const Element* dy;    // [n]
  Element* dgate;       // [n]; may be dy
  Element* dup;         // [n]
  int64_t n;
};
template <typename Element>
void swiglu_backward(Stream& stream, const SwigluBackward<Element>& args);

}  // namespace hidup::kernels
