#include "kernels/gelu.h"

#include "kernels/cpu_math.h"

namespace hidup::kernels {
namespace {

constexpr float kTwoRoot = 1.59576912160573071F;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715F;

// Below -10 all is 0 in float, above 10 the sigmoid is 1. Further out there would be infinities.
// NaN stays NaN.
inline float not_below(float x) {
  return x < -10.0F ? -10.0F : x;
}
inline float not_above(float x) {
  return x > 10.0F ? 10.0F : x;
}

// e^-2u.
inline float exponential(float x) {
  return fast_exp(-kTwoRoot * x * (1.0F + kCubic * x * x));
}

}  // namespace

void gelu_forward(Stream& stream, const float* x, float* y, int64_t n) {
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      const float at = not_below(x[i]);
      y[i] = at / (1.0F + exponential(not_above(at)));
    }
  });
}

void gelu_backward(Stream& stream, const float* x, const float* dy, float* dx, int64_t n) {
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      const float at = not_above(not_below(x[i]));
      const float e = exponential(at);
      const float sigmoid = 1.0F / (1.0F + e);
      const float slope = kTwoRoot * (1.0F + 3.0F * kCubic * at * at);
      dx[i] = dy[i] * (sigmoid + at * (e * sigmoid) * sigmoid * slope);
    }
  });
}

}  // namespace hidup::kernels
