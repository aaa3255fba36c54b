#include "kernels/convert.h"
#include "kernels/cuda_elements.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int kCount = 4;  // elements at a time: 16 bytes of floats

template <typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const From* x, To* y, int64_t n, int64_t vectors) {
  for (int64_t i = thread_of_grid(); i < vectors; i += threads_of_grid()) {
    const Vector<From, kCount> in = reinterpret_cast<const Vector<From, kCount>*>(x)[i];
    float values[kCount];
    for (int j = 0; j < kCount; ++j) {
      values[j] = widen(in.element[j]);
    }
    reinterpret_cast<Vector<To, kCount>*>(y)[i] = narrow<To>(values);
  }
  for (int64_t i = kCount * vectors + thread_of_grid(); i < n; i += threads_of_grid()) {
    y[i] = narrow<To>(widen(x[i]));
  }
}

}  // namespace

template <typename From, typename To>
void convert(Stream& stream, const From* x, To* y, int64_t n) {
  check_extents("convert", {n});
  const int64_t vectors = aligned16(x, y) ? n / kCount : 0;
  launch(stream, convert_kernel<From, To>, blocks_for(n, kCount * kThreads), kThreads, x, y, n,
         vectors);
}

template void convert(Stream&, const float*, BFloat16*, int64_t);
template void convert(Stream&, const float*, Float16*, int64_t);
template void convert(Stream&, const BFloat16*, float*, int64_t);
template void convert(Stream&, const Float16*, float*, int64_t);

}  // namespace hidup::kernels
