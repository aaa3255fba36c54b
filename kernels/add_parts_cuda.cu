#include "kernels/add_parts.h"
#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int kCount = 4;  // elements at a time: 16 bytes of floats

template <typename Element, int kElements>
__global__ void __launch_bounds__(kThreads)
    add_parts_kernel(const Element* parts, int64_t count, float* sum, int64_t n) {
  for (int64_t i = kElements * thread_of_grid(); i < n; i += kElements * threads_of_grid()) {
    Vector<float, kElements> total = load_vector<float, kElements>(sum + i);
    for (int64_t part = 0; part < count; ++part) {
      const auto added = load_vector<Element, kElements>(parts + part * n + i);
      HIDUP_UNROLL
      for (int j = 0; j < kElements; ++j) {
        total.element[j] += widen(added.element[j]);
      }
    }
    store_vector(sum + i, total);
  }
}

}  // namespace

template <typename Element>
void add_parts(Stream& stream, const Element* parts, int64_t count, float* sum, int64_t n) {
  check_extents("add_parts", {count, n});
  if (count == 0) {
    return;
  }
  if (n % kCount == 0 && aligned16(parts, sum)) {
    launch(stream, add_parts_kernel<Element, kCount>, blocks_for(n, kCount * kThreads), kThreads,
           parts, count, sum, n);
  } else {
    launch(stream, add_parts_kernel<Element, 1>, blocks_for(n, kThreads), kThreads, parts, count,
           sum, n);
  }
}

template void add_parts(Stream&, const BFloat16*, int64_t, float*, int64_t);
template void add_parts(Stream&, const Float16*, int64_t, float*, int64_t);

}  // namespace hidup::kernels
