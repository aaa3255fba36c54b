// Root mean square normalization (Zhang and Sennrich 2019), as in Llama:
//   y = x * rstd * gamma,  rstd = 1 / sqrt(average(x^2) + eps)
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

template <typename Element>
struct RmsNormForward {
  const Element* x;      // [rows, n]
  const Element* gamma;  // [n]
  Element* y;            // [rows, n]; may be x where the backward pass does not need x
  float* rstd;           // f32 [rows]; the backward pass reads it
  int64_t rows;
  int64_t n;  // >= 1
  float eps;
};
template <typename Element>
void rms_norm_forward(Stream& stream, const RmsNormForward<Element>& args);

// With h = x * rstd and g = dy * gamma, averages over a row:
//   dx = rstd * (g - h * average(g * h)) + added
//   dgamma (+)= sum over rows of dy * h
template <typename Element>
struct RmsNormBackward {
  const Element* x;      // [rows, n]
  const Element* gamma;  // [n]
  const float* rstd;     // f32 [rows]
  const Element* dy;     // [rows, n]
  const Element* added;  // [rows, n], x's gradient from elsewhere; null: none
  Element* dx;           // [rows, n]; may be dy or added
  float* dgamma;         // f32 [n]
  int64_t rows;
  int64_t n;        // >= 1
  bool accumulate;  // holds for dgamma only
};
template <typename Element>
void rms_norm_backward(Stream& stream, const RmsNormBackward<Element>& args);

}  // namespace hidup::kernels
