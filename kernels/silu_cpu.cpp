#include "kernels/cpu_math.h"
#include "kernels/preconditions.h"
#include "kernels/silu.h"

namespace hidup::kernels {
namespace {

// fast_exp() is finite within it. Below -kSiluLimit silu and its slope are 0 within 2e-36, above
// kSiluLimit the slope is 1.
constexpr float kSiluLimit = 87.0F;

inline float silu(float x) {
  const float at = x < -kSiluLimit ? -kSiluLimit : x;
  return at / (1.0F + fast_exp(-at));
}

inline float silu_slope(float x) {
  const float above = x < -kSiluLimit ? -kSiluLimit : x;
  const float at = above > kSiluLimit ? kSiluLimit : above;
  const float e = fast_exp(-at);
  const float sigmoid = 1.0F / (1.0F + e);
  return sigmoid + at * sigmoid * (e * sigmoid);
}

}  // namespace

template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("silu", {n});
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      y[i] = silu(x[i]);
    }
  });
}

template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  check_extents("silu_backward", {n});
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * silu_slope(x[i]);
    }
  });
}

#define INSTANTIATE(Element)                                      \
  template decltype(silu_forward<Element>) silu_forward<Element>; \
  template decltype(silu_backward<Element>) silu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
