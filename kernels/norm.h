// The norm of all gradients, and the factor that clips it.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// sum (+)= the sum of the squares of x, summed in double; x: f32 [n]; sum: f32 [1].
void squared_norm(Stream& stream, const float* x, int64_t n, float* sum, bool accumulate);

// norm = sqrt(squared); scale = min(1, max_norm / (norm + 1e-6)), as in PyTorch's
// clip_grad_norm_, or 1 if max_norm <= 0. squared, norm, scale: f32 [1].
void clip_scale(Stream& stream, const float* squared, float max_norm, float* norm, float* scale);

}  // namespace hidup::kernels
