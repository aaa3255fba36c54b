#include "kernels/copy_box.h"
#include "kernels/cuda_math.h"

namespace hidup::kernels {
namespace {

// The same box with the fewest dimensions.
Box merged(const Box& box) {
  Box out;
  out.element = box.element;
  out.from_offset = box.from_offset;
  out.to_offset = box.to_offset;
  for (int d = 0; d < box.dims; ++d) {
    if (box.extent[d] == 1) {
      continue;
    }
    const int last = out.dims - 1;
    const bool one_run = last >= 0 && out.from_stride[last] == box.from_stride[d] * box.extent[d] &&
                         out.to_stride[last] == box.to_stride[d] * box.extent[d];
    const int at = one_run ? last : out.dims++;
    out.extent[at] = (one_run ? out.extent[at] : 1) * box.extent[d];
    out.from_stride[at] = box.from_stride[d];
    out.to_stride[at] = box.to_stride[d];
  }
  return out;
}

// Whether the box can be copied by `count` neighbours at a time.
bool in_groups(const Box& box, int64_t count) {
  const int last = box.dims - 1;
  if (last < 0 || box.from_stride[last] != 1 || box.to_stride[last] != 1) {
    return false;
  }
  int64_t all = box.from_offset | box.to_offset | box.extent[last];  // count is a power of 2
  for (int d = 0; d < last; ++d) {
    all |= box.from_stride[d] | box.to_stride[d];
  }
  return all % count == 0;
}

// The box in_groups(), counted in groups.
Box grouped(const Box& box, int64_t count) {
  Box out = box;
  const int last = box.dims - 1;
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
    copy_kernel(const V* from, V* to, Box box, int64_t elements) {
  for (int64_t i = thread_of_grid(); i < elements; i += threads_of_grid()) {
    int64_t from_at = box.from_offset;
    int64_t to_at = box.to_offset;
    int64_t rest = i;
    for (int d = box.dims - 1; d >= 0; --d) {
      const int64_t index = rest % box.extent[d];
      rest /= box.extent[d];
      from_at += index * box.from_stride[d];
      to_at += index * box.to_stride[d];
    }
    to[to_at] = from[from_at];
  }
}

template <typename V>
void copy_elements(Stream& stream, const void* from, void* to, const Box& box) {
  int64_t elements = 1;
  for (int d = 0; d < box.dims; ++d) {
    elements *= box.extent[d];
  }
  launch(stream, copy_kernel<V>, blocks_for(elements, kThreads), kThreads,
         static_cast<const V*>(from), static_cast<V*>(to), box, elements);
}

}  // namespace

void copy_box(Stream& stream, const void* from, void* to, const Box& box) {
  const Box simple = merged(box);
  const int64_t count = 16 / box.element;
  if (in_groups(simple, count) && aligned16(from, to)) {
    copy_elements<int4>(stream, from, to, grouped(simple, count));
  } else if (box.element == 2) {  // integers keep the bits of all elements
    copy_elements<uint16_t>(stream, from, to, simple);
  } else {
    copy_elements<int32_t>(stream, from, to, simple);
  }
}

void fill_zero(Stream& stream, void* to, int64_t bytes) {
  fill_bytes(stream, to, 0, bytes);
}

}  // namespace hidup::kernels
