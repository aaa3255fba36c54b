// y = max(x, 0), element by element.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// x, y: [n]; y may be x. NaN stays NaN.
template <typename Element>
void relu_forward(Stream& stream, const Element* x, Element* y, int64_t n);

// dx = dy where y > 0, else 0, from the output y of the forward pass; y, dy, dx: [n];
// dx may be dy.
template <typename Element>
void relu_backward(Stream& stream, const Element* y, const Element* dy, Element* dx, int64_t n);

}  // namespace hidup::kernels
