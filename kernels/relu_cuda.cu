#include "kernels/cuda_elementwise.h"
#include "kernels/preconditions.h"
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

template <typename Element>
void relu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("relu", {n});
  map_elements(stream, Relu{}, x, x, y, n);
}

template <typename Element>
void relu_backward(Stream& stream, const Element* y, const Element* dy, Element* dx, int64_t n) {
  check_extents("relu_backward", {n});
  map_elements(stream, ReluGradient{}, y, dy, dx, n);
}

#define INSTANTIATE(Element)                                      \
  template decltype(relu_forward<Element>) relu_forward<Element>; \
  template decltype(relu_backward<Element>) relu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
