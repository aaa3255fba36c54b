#include "kernels/cuda_elementwise.h"
#include "kernels/gelu.h"

namespace hidup::kernels {
namespace {

constexpr float kTwoRoot = 1.59576912160573071F;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715F;

// Below -10 all is 0 in float, above 10 the sigmoid is 1. Further out there would be infinities.
// NaN stays NaN.
__device__ float not_below(float x) {
  return x < -10.0F ? -10.0F : x;
}
__device__ float not_above(float x) {
  return x > 10.0F ? 10.0F : x;
}

// e^-2u.
__device__ float exponential(float x) {
  return expf(-kTwoRoot * x * (1.0F + kCubic * x * x));
}

struct Gelu {
  __device__ float operator()(float x, float) const {
    const float at = not_below(x);
    return at / (1.0F + exponential(not_above(at)));
  }
};

struct GeluGradient {
  __device__ float operator()(float x, float dy) const {
    const float at = not_above(not_below(x));
    const float e = exponential(at);
    const float sigmoid = 1.0F / (1.0F + e);
    const float slope = kTwoRoot * (1.0F + 3.0F * kCubic * at * at);
    return dy * (sigmoid + at * (e * sigmoid) * sigmoid * slope);
  }
};

}  // namespace

void gelu_forward(Stream& stream, const float* x, float* y, int64_t n) {
  map_elements(stream, Gelu{}, x, x, y, n);
}

void gelu_backward(Stream& stream, const float* x, const float* dy, float* dx, int64_t n) {
  map_elements(stream, GeluGradient{}, x, dy, dx, n);
}

}  // namespace hidup::kernels
