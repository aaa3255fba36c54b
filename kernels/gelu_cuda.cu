#include "kernels/cuda_elementwise.h"
#include "kernels/gelu.h"
#include "kernels/gelu_math.h"

namespace hidup::kernels {
namespace {

struct Gelu {
  __device__ float operator()(float x, float) const {
    const float at = not_below(x);
    return at / (1.0F + expf(gelu_exponent(not_above(at))));
  }
};

struct GeluGradient {
  __device__ float operator()(float x, float dy) const {
    const float at = not_above(not_below(x));
    return dy * gelu_slope(at, expf(gelu_exponent(at)));
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
