#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"
#include "kernels/relu.h"

namespace hidup::kernels {

template <typename Element>
void relu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("relu", {n});
  stream.enqueue([=] {
    for_each_element(n, [=](int64_t i) {
      const float value = x[i];
      y[i] = value < 0.0F ? 0.0F : value;
    });
  });
}

template <typename Element>
void relu_backward(Stream& stream, const Element* y, const Element* dy, Element* dx, int64_t n) {
  check_extents("relu_backward", {n});
  stream.enqueue([=] {
    for_each_element(n, [=](int64_t i) {
      const float gradient = dy[i];  // read in any case, or the loop keeps a branch
      dx[i] = y[i] > 0.0F ? gradient : 0.0F;
    });
  });
}

#define INSTANTIATE(Element)                                      \
  template decltype(relu_forward<Element>) relu_forward<Element>; \
  template decltype(relu_backward<Element>) relu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
