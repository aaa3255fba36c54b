#include "kernels/cuda_elementwise.h"
#include "kernels/gelu.h"
#include "kernels/gelu_math.h"
#include "kernels/preconditions.h"

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

template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("gelu", {n});
  map_elements(stream, Gelu{}, x, x, y, n);
}

template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  check_extents("gelu_backward", {n});
  map_elements(stream, GeluGradient{}, x, dy, dx, n);
}

#define INSTANTIATE(Element)                                      \
  template decltype(gelu_forward<Element>) gelu_forward<Element>; \
  template decltype(gelu_backward<Element>) gelu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
