#include "kernels/cuda_elementwise.h"
#include "kernels/preconditions.h"
#include "kernels/silu.h"

namespace hidup::kernels {
namespace {

// expf() is finite within it. Below -kSiluLimit silu and its slope are 0 within 2e-36, above
// kSiluLimit the slope is 1.
constexpr float kSiluLimit = 87.0F;

struct Silu {
  __device__ float operator()(float x, float) const {
    const float at = x < -kSiluLimit ? -kSiluLimit : x;
    return at / (1.0F + expf(-at));
  }
};

struct SiluGradient {
  __device__ float operator()(float x, float dy) const {
    const float above = x < -kSiluLimit ? -kSiluLimit : x;
    const float at = above > kSiluLimit ? kSiluLimit : above;
    const float e = expf(-at);
    const float sigmoid = 1.0F / (1.0F + e);
    return dy * (sigmoid + at * sigmoid * (e * sigmoid));
  }
};

}  // namespace

template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("silu", {n});
  map_elements(stream, Silu{}, x, x, y, n);
}

template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  check_extents("silu_backward", {n});
  map_elements(stream, SiluGradient{}, x, dy, dx, n);
}

#define INSTANTIATE(Element)                                      \
  template decltype(silu_forward<Element>) silu_forward<Element>; \
  template decltype(silu_backward<Element>) silu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
