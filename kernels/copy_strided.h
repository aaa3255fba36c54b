// Copies between strided parts of tensors: what packs and unpacks messages, and what slices.
#pragma once

#include <cstdint>

#include "core/region.h"
#include "device/device.h"

namespace hidup::kernels {

// Strides and offsets count elements.
struct StridedCopy {
  int64_t element = 4;  // bytes: 2 or 4
  int dims = 0;         // at most kMaxDims
  int64_t extent[kMaxDims] = {};
  int64_t from_stride[kMaxDims] = {};
  int64_t to_stride[kMaxDims] = {};
  int64_t from_offset = 0;
  int64_t to_offset = 0;
};

// to[to_offset + sum i_d * to_stride_d] = from[from_offset + sum i_d * from_stride_d] for all
// indices i below extent. The two do not overlap, and both are aligned to an element. An extent of
// 0 copies nothing; 0 dimensions are one element.
void copy_strided(Stream& stream, const void* from, void* to, const StridedCopy& copy);

// Bytes become zero.
void fill_zero(Stream& stream, void* to, int64_t bytes);

}  // namespace hidup::kernels
