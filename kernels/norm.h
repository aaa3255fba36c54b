// The norm of all gradients, and the factor that clips them.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/step_state.h"

namespace hidup::kernels {

// sum (+)= the sum of the squares of x, summed in double; x: f32 [n]; sum: f32 [1].
void squared_norm(Stream& stream, const float* x, int64_t n, float* sum, bool accumulate);

// norm = sqrt(squared) / state->loss_scale, for gradients of the scaled loss; scale = min(1,
// max_norm / (norm + 1e-6)) / state->loss_scale, as in PyTorch's clip_grad_norm_, or 1 /
// state->loss_scale if max_norm <= 0. The scale is NaN if the norm is not finite, and after the
// state has stopped. squared, norm, scale: f32 [1]. `state` is read when the work runs, and then
// counts the step, so this step's readers of loss_scale must run earlier.
void clip_scale(Stream& stream, const float* squared, float max_norm, float* norm, float* scale,
                StepState* state);

}  // namespace hidup::kernels
