#include "kernels/cuda_elementwise.h"
#include "kernels/relu.h"

namespace hidup::kernels {
namespace {

struct Relu {
  __device__ float operator()(float x, float) const { return x < 0.0F ? 0.0F : x; }
};

struct ReluGradient {
  __device__ float operator()(float y, float dy) const { return y > 0.0F ? dy : 0.0F; }
};

}  // namespace

void relu_forward(Stream& stream, const float* x, float* y, int64_t n) {
  map_elements(stream, Relu{}, x, x, y, n);
}

void relu_backward(Stream& stream, const float* y, const float* dy, float* dx, int64_t n) {
  map_elements(stream, ReluGradient{}, y, dy, dx, n);
}

}  // namespace hidup::kernels
