#include "kernels/copy_strided.h"
#include "kernels/cuda_math.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Returns true if `count` neighbours can be copied at a time.
bool in_groups(const StridedCopy& copy, int64_t count) {
  const int last = copy.dims - 1;
  if (last < 0 || copy.from_stride[last] != 1 || copy.to_stride[last] != 1) {
    return false;
  }
  int64_t all = copy.from_offset | copy.to_offset | copy.extent[last];  // count is a power of 2
  for (int d = 0; d < last; ++d) {
    all |= copy.from_stride[d] | copy.to_stride[d];
  }
  return all % count == 0;
}

// Returns a copy that is in_groups(), counted in groups.
StridedCopy grouped(const StridedCopy& copy, int64_t count) {
  StridedCopy out = copy;
  const int last = copy.dims - 1;
  out.from_offset /= count;
  out.to_offset /= count;
  out.extent[last] /= count;
  for (int d = 0; d < last; ++d) {
    out.from_stride[d] /= count;
    out.to_stride[d] /= count;
  }
  return out;
}

template <typename V>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(const V* from, V* to, StridedCopy copy, int64_t elements) {
  for (int64_t i = thread_of_grid(); i < elements; i += threads_of_grid()) {
    int64_t from_at = copy.from_offset;
    int64_t to_at = copy.to_offset;
    int64_t rest = i;
    for (int d = copy.dims - 1; d >= 0; --d) {
      const int64_t index = rest % copy.extent[d];
      rest /= copy.extent[d];
      from_at += index * copy.from_stride[d];
      to_at += index * copy.to_stride[d];
    }
    to[to_at] = from[from_at];
  }
}

template <typename V>
void copy_elements(Stream& stream, const void* from, void* to, const StridedCopy& copy) {
  int64_t elements = 1;
  for (int d = 0; d < copy.dims; ++d) {
    elements *= copy.extent[d];
  }
  launch(stream, copy_kernel<V>, blocks_for(elements, kThreads), kThreads,
         static_cast<const V*>(from), static_cast<V*>(to), copy, elements);
}

}  // namespace

void copy_strided(Stream& stream, const void* from, void* to, const StridedCopy& copy) {
  check_copy(copy, from, to);
  const StridedCopy simple = merged(copy);
  const int64_t count = 16 / copy.element;
  if (in_groups(simple, count) && aligned16(from, to)) {
    copy_elements<int4>(stream, from, to, grouped(simple, count));
  } else if (copy.element == 2) {  // integers preserve the bits of all elements
    copy_elements<uint16_t>(stream, from, to, simple);
  } else {
    copy_elements<int32_t>(stream, from, to, simple);
  }
}

void fill_zero(Stream& stream, void* to, int64_t bytes) {
  check_extents("fill_zero", {bytes});
  fill_bytes(stream, to, 0, bytes);
}

}  // namespace hidup::kernels
