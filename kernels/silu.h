// The sigmoid linear unit, also called swish (Elfwing et al., "Sigmoid-weighted linear units for
// neural network function approximation in reinforcement learning", 2018; Hendrycks and Gimpel,
// "Gaussian error linear units", 2016):
//   y = x s(x),  s(z) = 1/(1 + e^-z)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// y = silu(x), element by element; x, y: [n]; y may be x. NaN stays NaN.
template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n);

// dx = dy silu'(x), from the input x of the forward pass; x, dy, dx: [n]; dx may be dy.
//   silu'(x) = s(x) + x s(x) (1 - s(x))
template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n);

}  // namespace hidup::kernels
