// Inside the CUDA kernels: functions applied element by element, four at a time where the
// addresses allow it.
#pragma once

#include <cstdint>

#include "kernels/cuda_math.h"

namespace hidup::kernels {

template <typename Function>
__device__ float4 apply4(Function function, float4 a, float4 b) {
  return make_float4(function(a.x, b.x), function(a.y, b.y), function(a.z, b.z),
                     function(a.w, b.w));
}

// y may be a or b.
template <typename Function>
__global__ void __launch_bounds__(kThreads)
    map_kernel(Function function, const float* a, const float* b, float* y, int64_t n,
               int64_t vectors) {
  for (int64_t i = thread_of_grid(); i < vectors; i += threads_of_grid()) {
    reinterpret_cast<float4*>(y)[i] = apply4(function, reinterpret_cast<const float4*>(a)[i],
                                             reinterpret_cast<const float4*>(b)[i]);
  }
  for (int64_t i = 4 * vectors + thread_of_grid(); i < n; i += threads_of_grid()) {
    y[i] = function(a[i], b[i]);
  }
}

// y[i] = function(a[i], b[i]); a function of one argument gets the same one twice.
template <typename Function>
void map_elements(Stream& stream, Function function, const float* a, const float* b, float* y,
                  int64_t n) {
  const int64_t vectors = aligned16(a, b, y) ? n / 4 : 0;
  launch(stream, map_kernel<Function>, blocks_for(n, 4 * kThreads), kThreads, function, a, b, y, n,
         vectors);
}

}  // namespace hidup::kernels
