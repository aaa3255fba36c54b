// Elementwise activations: x, y, dy and dx are [n], y may be x, and dx may be dy. NaN stays NaN.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y = max(x, 0).
template <typename Element>
void relu_forward(Stream& stream, const Element* x, Element* y, int64_t n);
// dx = dy where y > 0, else 0, from the output y of the forward pass.
template <typename Element>
void relu_backward(Stream& stream, const Element* y, const Element* dy, Element* dx, int64_t n);

// Gaussian error linear unit in its tanh form, as in GPT-2 (Hendrycks and Gimpel, "Gaussian error
// linear units", 2016, section 2):
//   y = x/2 (1 + tanh u) = x s(2u),  u = sqrt(2/pi) (x + 0.044715 x^3),  s(z) = 1/(1 + e^-z)
template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n);
// dx = dy gelu'(x), from the input x of the forward pass:
//   gelu'(x) = s(2u) + x s(2u) (1 - s(2u)) 2u',  u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n);

// Sigmoid linear unit or swish (Elfwing et al., "Sigmoid-weighted linear units for neural network
// function approximation in reinforcement learning", 2018; Hendrycks and Gimpel, 2016):
//   y = x s(x)
template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n);
// dx = dy silu'(x), from the input x of the forward pass:
//   silu'(x) = s(x) + x s(x) (1 - s(x))
template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n);

}  // namespace hidup::kernels
