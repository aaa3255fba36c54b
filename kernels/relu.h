// y = max(x, 0), element by element.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// x, y: f32 [n]; y may be x. NaN stays NaN.
void relu_forward(Stream& stream, const float* x, float* y, int64_t n);

// dx = dy where y > 0, else 0, from the output y of the forward pass; y, dy, dx: f32 [n];
// dx may be dy.
void relu_backward(Stream& stream, const float* y, const float* dy, float* dx, int64_t n);

}  // namespace hidup::kernels
