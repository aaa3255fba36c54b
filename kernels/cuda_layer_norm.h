// Layer normalization (layer_norm.h) of a row, for CUDA kernels.
#pragma once

#include "kernels/cuda_rows.h"

namespace hidup::kernels {

// y = layer_norm(x); if not centered, the RMS norm, which has neither beta nor mean.
template <bool kCentered, typename Row, typename Element>
__device__ void normalize(const Row& x, const Element* gamma, const Element* beta, Element* y,
                          float* mean, float* rstd, int64_t n, float eps) {
  using V = typename Row::V;
  const float average =
      kCentered ? sum_of_row(x, [](float value) { return value; }) / static_cast<float>(n) : 0.0F;
  const auto from_mean = [=](float value) { return kCentered ? value - average : value; };
  // Squares the differences: the mean of the squares would cancel if the mean is large.
  const float squares =
      sum_of_row(x, [=](float value) { return from_mean(value) * from_mean(value); });
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(n) + eps);
  if (threadIdx.x % Row::kGroup == 0) {
    if constexpr (kCentered) {
      *mean = average;
    }
    *rstd = factor;
  }
  x.each([&](int, int64_t j, const V& values) {
    const V scale = load_vector<Element, Row::kCount>(gamma + j);
    V shift{};
    if constexpr (kCentered) {
      shift = load_vector<Element, Row::kCount>(beta + j);
    }
    float out[Row::kCount];
    for (int e = 0; e < Row::kCount; ++e) {
      const float scaled = from_mean(widen(values.element[e])) * factor * widen(scale.element[e]);
      out[e] = kCentered ? scaled + widen(shift.element[e]) : scaled;
    }
    store_vector(y + j, narrow<Element>(out));
  });
}

}  // namespace hidup::kernels
