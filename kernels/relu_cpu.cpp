#include "kernels/relu.h"

namespace hidup::kernels {

void relu_forward(Stream& stream, const float* x, float* y, int64_t n) {
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      y[i] = x[i] < 0.0F ? 0.0F : x[i];
    }
  });
}

void relu_backward(Stream& stream, const float* y, const float* dy, float* dx, int64_t n) {
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      const float gradient = dy[i];  // read in any case, or the loop keeps a branch
      dx[i] = y[i] > 0.0F ? gradient : 0.0F;
    }
  });
}

}  // namespace hidup::kernels
