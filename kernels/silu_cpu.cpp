#include "kernels/cpu_silu.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"
#include "kernels/silu.h"

namespace hidup::kernels {

template <typename Element>
void silu_forward(Stream& stream, const Element* x, Element* y, int64_t n) {
  check_extents("silu", {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { y[i] = silu(x[i]); }); });
}

template <typename Element>
void silu_backward(Stream& stream, const Element* x, const Element* dy, Element* dx, int64_t n) {
  check_extents("silu_backward", {n});
  stream.enqueue(
      [=] { for_each_element(n, [=](int64_t i) { dx[i] = dy[i] * silu_slope(x[i]); }); });
}

#define INSTANTIATE(Element)                                      \
  template decltype(silu_forward<Element>) silu_forward<Element>; \
  template decltype(silu_backward<Element>) silu_backward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
