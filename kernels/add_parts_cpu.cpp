#include "kernels/add_parts.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void add_parts(Stream& stream, const Element* parts, int64_t count, float* sum, int64_t n) {
  check_extents("add_parts", {count, n});
  stream.enqueue([=] {
    for_each_element(n, [=](int64_t i) {
      float total = sum[i];
      for (int64_t part = 0; part < count; ++part) {
        total += float{parts[part * n + i]};
      }
      sum[i] = total;
    });
  });
}

template void add_parts(Stream&, const BFloat16*, int64_t, float*, int64_t);
template void add_parts(Stream&, const Float16*, int64_t, float*, int64_t);

}  // namespace hidup::kernels
