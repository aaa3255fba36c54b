#include "kernels/convert.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename From, typename To>
void convert(Stream& stream, const From* x, To* y, int64_t n) {
  check_extents("convert", {n});
  stream.enqueue([=] { for_each_element(n, [=](int64_t i) { y[i] = float{x[i]}; }); });
}

template void convert(Stream&, const float*, BFloat16*, int64_t);
template void convert(Stream&, const float*, Float16*, int64_t);
template void convert(Stream&, const BFloat16*, float*, int64_t);
template void convert(Stream&, const Float16*, float*, int64_t);

}  // namespace hidup::kernels
