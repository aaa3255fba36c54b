// The Gaussian error linear unit in its tanh form (Hendrycks and Gimpel, "Gaussian error linear
// units", 2016, section 2), as GPT-2 has it:
//   y = x/2 (1 + tanh u) = x s(2u),  u = sqrt(2/pi) (x + 0.044715 x^3),  s(z) = 1/(1 + e^-z)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y = gelu(x), element by element; x, y: [n]; y may be x. NaN stays NaN.
template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n);

// dx = dy gelu'(x), from the input x of the forward pass; x, dy, dx: [n]; dx may be dy.
//   gelu'(x) = s(2u) + x s(2u) (1 - s(2u)) 2u',  u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n);

}  // namespace hidup::kernels
