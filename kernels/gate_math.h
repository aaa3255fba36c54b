// Parts of the gate's formulas (gate.h) that the back ends share; for this folder only.
#pragma once

#include <cmath>

#include "core/host_device.h"

namespace hidup::kernels {

// Returns 1 / (1 + e^-x), which is 0 or 1 far from 0. NaN stays NaN.
HIDUP_HOST_DEVICE inline float sigmoid_of(float x) {
  return 1.0F / (1.0F + expf(-x));
}

// Returns the logarithm of a weight before normalization, up to a term that all experts share: the
// logit for the softmax, or log(sigmoid(x)), so that small sigmoids keep their ratios.
HIDUP_HOST_DEVICE inline float log_score(float x, bool sigmoid) {
  return sigmoid ? (x < 0.0F ? x : 0.0F) - log1pf(expf(-fabsf(x))) : x;
}
// Returns its slope.
HIDUP_HOST_DEVICE inline float log_score_slope(float x, bool sigmoid) {
  return sigmoid ? sigmoid_of(-x) : 1.0F;
}

}  // namespace hidup::kernels
