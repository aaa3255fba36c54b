// Inside the CUDA kernels: layer normalization (layer_norm.h) and root mean square normalization
// (rms_norm.h) of rows.
#pragma once

#include "kernels/cuda_elements.h"

namespace hidup::kernels {

inline constexpr int64_t kShort = 1024;  // elements of a row that one warp does

// One of two kernels that do a row with a warp, and with all threads of a block.
template <typename... Parameters, typename... Arguments>
void launch_rows(Stream& stream, void (*by_warp)(Parameters...), void (*by_block)(Parameters...),
                 int64_t rows, int64_t n, Arguments... arguments) {
  if (n <= kShort) {
    launch(stream, by_warp, grid_of(ceil_div(rows, kThreads / kWarp)), kThreads, arguments...);
  } else {
    launch(stream, by_block, grid_of(rows), kThreads, arguments...);
  }
}

// y = layer_norm(x) for a row that kGroup threads do together; `sum`: of this thread's elements.
template <int kGroup, typename Element>
__device__ void normalize(const Element* x, float sum, const Element* gamma, const Element* beta,
                          Element* y, float* mean, float* rstd, int64_t n, float eps) {
  const int64_t first = threadIdx.x % kGroup;
  const float average = group_reduce<kGroup>(sum, Sum{}) / static_cast<float>(n);
  // From the differences: the mean of the squares would cancel where the mean is large.
  float squares = 0.0F;
  for (int64_t j = first; j < n; j += kGroup) {
    const float difference = widen(x[j]) - average;
    squares += difference * difference;
  }
  squares = group_reduce<kGroup>(squares, Sum{});
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(n) + eps);
  if (first == 0) {
    *mean = average;
    *rstd = factor;
  }
  for (int64_t j = first; j < n; j += kGroup) {
    const float h = (widen(x[j]) - average) * factor;
    y[j] = narrow<Element>(h * widen(gamma[j]) + widen(beta[j]));
  }
}

// y = rms_norm(x) for a row that kGroup threads do together.
template <int kGroup, typename Element>
__device__ void normalize_square(const Element* x, const Element* gamma, Element* y, float* rstd,
                                 int64_t n, float eps) {
  const int64_t first = threadIdx.x % kGroup;
  float squares = 0.0F;
  for (int64_t j = first; j < n; j += kGroup) {
    squares += widen(x[j]) * widen(x[j]);
  }
  squares = group_reduce<kGroup>(squares, Sum{});
  const float factor = 1.0F / sqrtf(squares / static_cast<float>(n) + eps);
  if (first == 0) {
    *rstd = factor;
  }
  for (int64_t j = first; j < n; j += kGroup) {
    y[j] = narrow<Element>(widen(x[j]) * factor * widen(gamma[j]));
  }
}

}  // namespace hidup::kernels
