// Copies between strided parts of tensors: they pack and unpack messages, and slice tensors.
#pragma once

#include <cstdint>

#include "core/region.h"
#include "device/device.h"

namespace hidup::kernels {

// A copy whose strides and offsets count elements.
struct StridedCopy {
  int64_t element = 4;  // bytes: 2 or 4
  int dims = 0;         // at most kMaxDims
  int64_t extent[kMaxDims] = {};
  int64_t from_stride[kMaxDims] = {};
  int64_t to_stride[kMaxDims] = {};
  int64_t from_offset = 0;
  int64_t to_offset = 0;
};

// Returns the same copy with the fewest dimensions, at least one; the innermost comes last.
inline StridedCopy merged(const StridedCopy& copy) {
  StridedCopy out;
  out.element = copy.element;
  out.from_offset = copy.from_offset;
  out.to_offset = copy.to_offset;
  for (int d = 0; d < copy.dims; ++d) {
    if (copy.extent[d] == 1) {
      continue;
    }
    const int last = out.dims - 1;
    if (last >= 0 && out.from_stride[last] == copy.from_stride[d] * copy.extent[d] &&
        out.to_stride[last] == copy.to_stride[d] * copy.extent[d]) {
      out.extent[last] *= copy.extent[d];
    } else {
      out.extent[out.dims++] = copy.extent[d];
    }
    out.from_stride[out.dims - 1] = copy.from_stride[d];
    out.to_stride[out.dims - 1] = copy.to_stride[d];
  }
  if (out.dims == 0) {
    out.dims = 1;
    out.extent[0] = 1;
    out.from_stride[0] = 1;
    out.to_stride[0] = 1;
  }
  return out;
}

// Copies to[to_offset + sum i_d * to_stride_d] = from[from_offset + sum i_d * from_stride_d] for
// all indices i below extent. The two do not overlap, and both are aligned to an element. An extent
// of 0 copies nothing; 0 dimensions copy one element.
void copy_strided(Stream& stream, const void* from, void* to, const StridedCopy& copy);

// Sets bytes to zero.
void fill_zero(Stream& stream, void* to, int64_t bytes);

}  // namespace hidup::kernels
