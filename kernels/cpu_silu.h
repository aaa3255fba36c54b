// SiLU of one element (activations.h); loops of it vectorize. For CPU kernels.
#pragma once

#include "kernels/cpu_math.h"
#include "kernels/silu_math.h"

namespace hidup::kernels {

inline float silu(float x) {
  const float at = not_below_silu(x);
  return silu_value(at, fast_exp(-at));
}

inline float silu_slope(float x) {
  const float at = within_silu(x);
  return silu_slope(at, fast_exp(-at));
}

}  // namespace hidup::kernels
