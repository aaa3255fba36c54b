#include "kernels/cpu_gelu.h"
#include "kernels/gelu.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("gelu", {n});
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      y[i] = gelu(x[i]);
    }
  });
}

template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  check_extents("gelu_backward", {n});
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = dy[i] * gelu_derivative(x[i]);
    }
  });
}

#define INSTANTIATE(Element)                                      \
  template decltype(gelu_forward<Element>) gelu_forward<Element>; \
  template decltype(gelu_backward<Element>) gelu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
