#include "kernels/cpu_gelu.h"
#include "kernels/cpu_team.h"
#include "kernels/gelu.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void gelu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("gelu", {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { y[i] = gelu(x[i]); }); });
}

template <typename Element>
void gelu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  check_extents("gelu_backward", {n});
  stream.enqueue(
      [=] { for_each_element(n, [=](int64_t i) { dx[i] = dy[i] * gelu_derivative(x[i]); }); });
}

#define INSTANTIATE(Element)                                      \
  template decltype(gelu_forward<Element>) gelu_forward<Element>; \
  template decltype(gelu_backward<Element>) gelu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
