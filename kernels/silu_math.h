// Parts of SiLU's formulas (activations.h) that the back ends share; for this folder only.
#pragma once

#include "core/host_device.h"

namespace hidup::kernels {

// A limit within which e^x is finite. Below -kSiluLimit silu and its slope are 0 within 2e-36,
// above kSiluLimit the slope is 1. NaN stays NaN.
constexpr float kSiluLimit = 87.0F;

HIDUP_HOST_DEVICE inline float not_below_silu(float x) {
  return x < -kSiluLimit ? -kSiluLimit : x;
}
HIDUP_HOST_DEVICE inline float within_silu(float x) {
  const float above = not_below_silu(x);
  return above > kSiluLimit ? kSiluLimit : above;
}

// Return silu(x) for x not below the limit, and silu'(x) for x within the limits; e = e^-x.
HIDUP_HOST_DEVICE inline float silu_value(float x, float e) {
  return x / (1.0F + e);
}
HIDUP_HOST_DEVICE inline float silu_slope(float x, float e) {
  const float sigmoid = 1.0F / (1.0F + e);
  return sigmoid + x * sigmoid * (e * sigmoid);
}

}  // namespace hidup::kernels
