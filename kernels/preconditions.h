// Inside the kernels: what the entry points ask of their arguments, the same for all back ends.
// Violations throw Error(internal) when the work is issued, before any of it runs. Not inline:
// nvcc 13 does not understand fmt 9's formats.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/region.h"

namespace hidup::kernels {

// Extents of a tensor: none is negative, and there are at most kMaxElements elements.
void check_extents(const char* kernel, std::initializer_list<int64_t> extents);

// 0 <= value <= limit.
void check_at_most(const char* what, int64_t value, int64_t limit);

// What a kernel counts with i32: at most 2^31 - 1.
inline void check_i32(const char* what, int64_t value) {
  check_at_most(what, value, INT32_MAX);
}

// A box of `dims` dimensions within the global tensor.
void check_region(const char* kernel, const Region& region, int dims);

// Rows that are normalized: they have elements.
void check_normalized_rows(const char* kernel, int64_t rows, int64_t n);

// Classes first .. first + columns - 1, which i32 numbers.
void check_classes(const char* kernel, int64_t rows, int64_t columns, int64_t first);

struct AttentionSize;
struct DispatchSize;
struct DropoutMask;
struct EmbeddingSize;
struct ExpertCounts;
struct ExpertSize;
struct GateSize;
struct MatmulShape;
struct RouteSize;
struct StridedCopy;

void check_size(const AttentionSize& size);
void check_size(const DispatchSize& size);
void check_size(const EmbeddingSize& size);
void check_size(const ExpertCounts& args);
void check_size(const ExpertSize& size);
void check_size(const GateSize& size);
void check_size(const MatmulShape& shape);
void check_size(const RouteSize& size);

// `elements` is the part's; each row of n elements is contiguous in the global tensor too.
void check_mask(const char* kernel, const DropoutMask& mask);
void check_mask_of_rows(const char* kernel, const DropoutMask& mask, int64_t rows, int64_t n);

// Routing entries of `experts` experts with `capacity` slots each, and their number.
void check_entries(const char* kernel, int64_t entries, int64_t experts, int64_t capacity);

void check_copy(const StridedCopy& copy, const void* from, const void* to);

// A bias, and a place for the input of GELU and of no other activation, unless y is empty.
void check_epilogue(const MatmulShape& shape, const void* bias, bool gelu, const void* input);

}  // namespace hidup::kernels
