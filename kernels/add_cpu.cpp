#include "kernels/add.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void add_forward(Stream& stream, const Element* a, const Element* b, Element* y, int64_t n) {
  check_extents("add", {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { y[i] = a[i] + b[i]; }); });
}

HIDUP_INSTANTIATE(add_forward);

}  // namespace hidup::kernels
