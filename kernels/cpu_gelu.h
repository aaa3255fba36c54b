// GELU of one element (activations.h) and its derivative; loops of them vectorize. For CPU kernels.
#pragma once

#include "kernels/cpu_math.h"
#include "kernels/gelu_math.h"

namespace hidup::kernels {

inline float gelu(float x) {
  const float at = not_below(x);
  return at / (1.0F + fast_exp(gelu_exponent(not_above(at))));
}

inline float gelu_derivative(float x) {
  const float at = not_above(not_below(x));
  return gelu_slope(at, fast_exp(gelu_exponent(at)));
}

}  // namespace hidup::kernels
