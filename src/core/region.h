// The part of a global tensor that one rank (and one microbatch) holds: a box.
#pragma once

#include <cstdint>

#include "core/random.h"

namespace hidup {

inline constexpr int kMaxDims = 6;

// The elements start[d] .. start[d] + extent[d] - 1 in each dimension d, outermost first, of a
// tensor of shape `global`. A region is plain data, so that device code can take it by value.
struct Region {
  int dims = 0;
  int64_t start[kMaxDims] = {};
  int64_t extent[kMaxDims] = {};
  int64_t global[kMaxDims] = {};

  // Returns the number of elements in the part.
  HIDUP_HOST_DEVICE int64_t elements() const {
    int64_t count = 1;
    for (int d = 0; d < dims; ++d) {
      count *= extent[d];
    }
    return count;
  }

  // Returns the row-major index in the global tensor of element `local` (row-major in the part).
  HIDUP_HOST_DEVICE int64_t global_index(int64_t local) const {
    int64_t index = 0;
    int64_t stride = 1;
    for (int d = dims - 1; d >= 0; --d) {
      index += (start[d] + local % extent[d]) * stride;
      local /= extent[d];
      stride *= global[d];
    }
    return index;
  }

  // Returns the length of runs that are contiguous in both tensors: local elements r*run ..
  // (r+1)*run - 1 have consecutive global indices.
  HIDUP_HOST_DEVICE int64_t contiguous_run() const {
    int64_t run = 1;
    for (int d = dims - 1; d >= 0; --d) {
      run *= extent[d];
      if (extent[d] != global[d]) {
        break;
      }
    }
    return run;
  }
};

// Returns the elements that both regions have.
HIDUP_HOST_DEVICE inline Region intersection(const Region& a, const Region& b) {
  Region common = a;
  for (int d = 0; d < a.dims; ++d) {
    const int64_t a_end = a.start[d] + a.extent[d];
    const int64_t b_end = b.start[d] + b.extent[d];
    common.start[d] = a.start[d] > b.start[d] ? a.start[d] : b.start[d];
    const int64_t extent = (a_end < b_end ? a_end : b_end) - common.start[d];
    common.extent[d] = extent > 0 ? extent : 0;
  }
  return common;
}

}  // namespace hidup
