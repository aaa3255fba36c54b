// Layer normalization (Ba et al. 2016), with the biased variance as in PyTorch:
//   y = (x - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + eps)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

// x, y: [rows, n] with n >= 1; gamma, beta: [n]; mean, rstd: f32 [rows], for the
// backward pass. y may be x where the backward pass does not need x.
template <typename Element>
void layer_norm_forward(Stream& stream, const Element* x, const Element* gamma, const Element* beta,
                        Element* y, float* mean, float* rstd, int64_t rows, int64_t n, float eps);

// With h = (x - mean) * rstd and g = dy * gamma, averages over a row:
//   dx = rstd * (g - average(g) - h * average(g * h))
//   dgamma (+)= sum over rows of dy * h,  dbeta (+)= sum over rows of dy
// dy, dx: [rows, n]; dx may be dy; dgamma, dbeta: f32 [n]. `accumulate` holds for dgamma and dbeta
// only.
template <typename Element>
void layer_norm_backward(Stream& stream, const Element* x, const Element* gamma, const float* mean,
                         const float* rstd, const Element* dy, Element* dx, float* dgamma,
                         float* dbeta, int64_t rows, int64_t n, bool accumulate);

}  // namespace hidup::kernels
