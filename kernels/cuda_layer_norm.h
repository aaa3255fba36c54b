// Inside the CUDA kernels: layer normalization (layer_norm.h) and root mean square normalization
// (rms_norm.h) of a row.
#pragma once

#include "kernels/cuda_rows.h"

namespace hidup::kernels {

// y = layer_norm(x).
template <typename Row, typename Element>
__device__ void normalize(const Row& x, const Element* gamma, const Element* beta, Element* y,
                          float* mean, float* rstd, int64_t n, float eps) {
  using V = typename Row::V;
  const float average = sum_of_row(x, [](float value) { return value; }) / static_cast<float>(n);
  // From the differences: the mean of the squares would cancel where the mean is large.
  const float squares =
      sum_of_row(x, [=](float value) { return (value - average) * (value - average); });
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(n) + eps);
  if (threadIdx.x % Row::kGroup == 0) {
    *mean = average;
    *rstd = factor;
  }
  x.each([&](int, int64_t j, const V& values) {
    const V scale = load_vector<Element, Row::kCount>(gamma + j);
    const V shift = load_vector<Element, Row::kCount>(beta + j);
    float out[Row::kCount];
    for (int e = 0; e < Row::kCount; ++e) {
      const float h = (widen(values.element[e]) - average) * factor;
      out[e] = h * widen(scale.element[e]) + widen(shift.element[e]);
    }
    store_vector(y + j, narrow<Element>(out));
  });
}

// y = rms_norm(x).
template <typename Row, typename Element>
__device__ void normalize_square(const Row& x, const Element* gamma, Element* y, float* rstd,
                                 int64_t n, float eps) {
  using V = typename Row::V;
  const float squares = sum_of_row(x, [](float value) { return value * value; });
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(n) + eps);
  if (threadIdx.x % Row::kGroup == 0) {
    *rstd = factor;
  }
  x.each([&](int, int64_t j, const V& values) {
    const V scale = load_vector<Element, Row::kCount>(gamma + j);
    float out[Row::kCount];
    for (int e = 0; e < Row::kCount; ++e) {
      out[e] = widen(values.element[e]) * factor * widen(scale.element[e]);
    }
    store_vector(y + j, narrow<Element>(out));
  });
}

}  // namespace hidup::kernels
