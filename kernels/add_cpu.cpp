#include "kernels/add.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void add_forward(Stream& stream, const Element* a, const Element* b, Element* y, int64_t n) {
  check_extents("add", {n});
  stream.enqueue([=] {
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      y[i] = a[i] + b[i];
    }
  });
}

#define INSTANTIATE(Element) template decltype(add_forward<Element>) add_forward<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
