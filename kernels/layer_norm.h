// Layer normalization (Ba et al. 2016), with the biased variance as in PyTorch:
//   y = (x - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + eps)
#pragma once

#include <cstdint>

#include "device/device.h"

namespace hidup::kernels {

// x, y: f32 [rows, n] with n >= 1; gamma, beta: f32 [n]; mean, rstd: f32 [rows], for the
// backward pass. y may be x where the backward pass does not need x.
void layer_norm_forward(Stream& stream, const float* x, const float* gamma, const float* beta,
                        float* y, float* mean, float* rstd, int64_t rows, int64_t n, float eps);

// With h = (x - mean) * rstd and g = dy * gamma, averages over a row:
//   dx = rstd * (g - average(g) - h * average(g * h))
//   dgamma (+)= sum over rows of dy * h,  dbeta (+)= sum over rows of dy
// dy, dx: f32 [rows, n]; dx may be dy. `accumulate` holds for dgamma and dbeta only.
void layer_norm_backward(Stream& stream, const float* x, const float* gamma, const float* mean,
                         const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta,
                         int64_t rows, int64_t n, bool accumulate);

}  // namespace hidup::kernels
