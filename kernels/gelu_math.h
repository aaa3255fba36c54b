// Parts of GELU's formulas (activations.h) that the back ends share; for this folder only.
#pragma once

#include "core/host_device.h"

namespace hidup::kernels {

// Limit x: below -10 all is 0 in float, above 10 the sigmoid is 1. NaN stays NaN.
HIDUP_HOST_DEVICE inline float not_below(float x) {
  return x < -10.0F ? -10.0F : x;
}
HIDUP_HOST_DEVICE inline float not_above(float x) {
  return x > 10.0F ? 10.0F : x;
}

constexpr float kGeluTwoRoot = 1.59576912160573071F;  // 2 sqrt(2/pi)
constexpr float kGeluCubic = 0.044715F;

// Return -2u and its slope.
HIDUP_HOST_DEVICE inline float gelu_exponent(float x) {
  return -kGeluTwoRoot * x * (1.0F + kGeluCubic * x * x);
}
HIDUP_HOST_DEVICE inline float gelu_exponent_slope(float x) {
  return -kGeluTwoRoot * (1.0F + 3.0F * kGeluCubic * x * x);
}

// Returns gelu'(x) for x within the limits; e = e^-2u.
HIDUP_HOST_DEVICE inline float gelu_slope(float x, float e) {
  const float sigmoid = 1.0F / (1.0F + e);
  return sigmoid - x * (e * sigmoid) * sigmoid * gelu_exponent_slope(x);
}

}  // namespace hidup::kernels
