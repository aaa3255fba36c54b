#include "kernels/add.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void add_forward(Stream& stream, const Element* a, const Element* b, Element* y, int64_t n) {
  check_extents("add", {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { y[i] = a[i] + b[i]; }); });
}

#define INSTANTIATE(Element) template decltype(add_forward<Element>) add_forward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
