#include "kernels/cuda_elementwise.h"
#include "kernels/preconditions.h"
#include "kernels/silu.h"
#include "kernels/silu_math.h"

namespace hidup::kernels {
namespace {

struct Silu {
  __device__ float operator()(float x, float) const {
    const float at = not_below_silu(x);
    return silu_value(at, expf(-at));
  }
};

struct SiluGradient {
  __device__ float operator()(float x, float dy) const {
    const float at = within_silu(x);
    return dy * silu_slope(at, expf(-at));
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
