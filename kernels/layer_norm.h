// Layer normalization (Ba et al. 2016), with the biased variance as in PyTorch:
//   y = (x - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + eps)
// Without mean and beta: root mean square normalization (Zhang and Sennrich 2019), as in Llama:
//   y = x * rstd * gamma,  rstd = 1 / sqrt(average(x^2) + eps)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

template <typename Element>
struct LayerNormForward {
  const Element* x;      // [rows, n]
  const Element* gamma;  // [n]
  const Element* beta;   // [n]; null: RMS norm
  Element* y;            // may be x if the backward pass does not need x
  float* mean;           // f32 [rows]; null without beta; for the backward pass
  float* rstd;           // f32 [rows]; for the backward pass
  int64_t rows;
  int64_t n;  // >= 1
  float eps;
};
template <typename Element>
void layer_norm_forward(Stream& stream, const LayerNormForward<Element>& args);

// With h = (x - mean) * rstd and g = dy * gamma, averages over a row:
//   dx = rstd * (g - average(g) - h * average(g * h)) + added
//   dgamma (+)= sum over rows of dy * h,  dbeta (+)= sum over rows of dy
// For RMS norm h = x * rstd, and average(g) counts as 0.
template <typename Element>
struct LayerNormBackward {
  const Element* x;      // [rows, n]
  const Element* gamma;  // [n]
  const float* mean;     // f32 [rows]; null without dbeta
  const float* rstd;     // f32 [rows]
  const Element* dy;     // [rows, n]
  const Element* added;  // [rows, n], another gradient of x; null: none
  Element* dx;           // [rows, n]; may be dy or added
  float* dgamma;         // f32 [n]
  float* dbeta;          // f32 [n]; null: RMS norm
  int64_t rows;
  int64_t n;        // >= 1
  bool accumulate;  // only for dgamma and dbeta
};
template <typename Element>
void layer_norm_backward(Stream& stream, const LayerNormBackward<Element>& args);

}  // namespace hidup::kernels
