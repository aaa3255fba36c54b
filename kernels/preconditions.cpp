#include "kernels/preconditions.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "core/limits.h"
#include "kernels/attention.h"
#include "kernels/class_token.h"
#include "kernels/copy_strided.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/matmul.h"
#include "kernels/rotary.h"
#include "kernels/route.h"
#include "kernels/router_bias.h"

namespace hidup::kernels {

void check_extents(const char* kernel, std::initializer_list<int64_t> extents) {
  double elements = 1.0;
  for (const int64_t extent : extents) {
    elements *= static_cast<double>(extent);
  }
  check(std::min(extents) >= 0 && elements <= kMaxElements, "{} of a tensor [{}]", kernel,
        fmt::join(extents, ", "));
}

void check_at_most(const char* what, int64_t value, int64_t limit) {
  check(value >= 0 && value <= limit, "{}: {} of at most {}", what, value, limit);
}

void check_region(const char* kernel, const Region& region, int dims) {
  check(region.dims == dims && dims >= 0 && dims <= kMaxDims, "{} of a region with {} dimensions",
        kernel, region.dims);
  double elements = 1.0;
  for (int d = 0; d < dims; ++d) {
    check(region.start[d] >= 0 && region.extent[d] >= 0 &&
              region.start[d] <= region.global[d] - region.extent[d],
          "{} of {} .. {} of {} in dimension {}", kernel, region.start[d],
          region.start[d] + region.extent[d], region.global[d], d);
    elements *= static_cast<double>(region.extent[d]);
  }
  check(elements <= kMaxElements, "{} of a region of {} elements", kernel, elements);
}

void check_normalized_rows(const char* kernel, int64_t rows, int64_t n) {
  check_extents(kernel, {rows, n});
  check(rows == 0 || n > 0, "{} of {} rows without elements", kernel, rows);
}

void check_classes(const char* kernel, int64_t rows, int64_t columns, int64_t first) {
  check_extents(kernel, {rows, columns});
  check_i32(kernel, first);
  check_i32(kernel, first + columns);
}

int64_t checked_stride(const char* kernel, int64_t rows, int64_t columns, int64_t stride) {
  check(stride == 0 || stride >= columns, "{}: rows of {} elements are {} apart", kernel, columns,
        stride);
  check_extents(kernel, {rows, stride});
  return stride > 0 ? stride : columns;
}

void check_entries(const char* kernel, int64_t entries, int64_t experts, int64_t capacity) {
  check_extents(kernel, {experts, capacity});
  check_i32(kernel, entries);
  check_i32(kernel, experts * capacity);
}

void check_size(const AttentionSize& size) {
  check_extents("attention", {size.batch, size.sequence, 3, size.heads, size.head});
  check_extents("attention", {size.batch, size.sequence, size.kv_heads, size.head});
  check(size.head > 0, "attention with heads of no elements");
  check(size.kv_heads > 0 ? size.heads % size.kv_heads == 0 : size.heads == 0,
        "attention with {} heads, which share the keys of {}", size.heads, size.kv_heads);
}

void check_size(const DispatchSize& size) {
  check_extents("dispatch", {size.batch, size.sequence, size.width});
  if (size.counts != nullptr) {
    check_extents("dispatch", {size.rows, size.width});
    check_i32("rows", size.rows);
  } else {
    check_extents("dispatch", {size.batch, size.experts, size.capacity, size.width});
  }
  check_extents("dispatch", {size.batch, size.sequence, size.choices});
  check_i32("the first expert", size.first_expert);
  check_entries("dispatch", size.batch * size.sequence * size.choices,
                size.first_expert + size.experts, size.capacity);
}

void check_size(const EmbeddingSize& size) {
  check_extents("embedding", {size.tokens, size.hidden});
  check_extents("embedding", {size.vocab, size.hidden});
  check_classes("embedding", size.tokens, size.vocab, size.first);
}

void check_size(const RotarySize& size) {
  check_extents("rotary", {size.batch, size.sequence, size.heads, size.head});
  check_at_most("rotary: the first position", size.first, INT64_MAX - size.sequence);
  check(size.head >= 2 && size.head % 2 == 0, "rotary: {} channels of a head are no pairs",
        size.head);
  check(size.theta > 0.0, "rotary: theta is {}", size.theta);
}

void check_size(const ExpertSize& size) {
  const int64_t widest = std::max(size.k, size.n);
  if (size.packed) {
    check_extents("experts", {size.rows, widest});
  } else {
    check_extents("experts", {size.batch, size.experts, size.capacity, widest});
  }
  check_extents("experts", {size.experts, size.k, size.n});
  check_i32("rows of an expert", size.packed ? size.rows : size.capacity);
}

void check_size(const ExpertCounts& args) {
  check_extents("expert_counts", {args.batch, args.entries});
  check_extents("expert_counts", {args.batch, args.experts});
  check_i32("the first expert", args.first_expert);
  check_entries("expert_counts", args.entries, args.first_expert + args.experts, args.capacity);
}

void check_size(const GateSize& size) {
  check_extents("gate", {size.tokens, size.experts});
  check_extents("gate", {size.tokens, size.choices});
  check_entries("gate", 0, size.experts, size.capacity);
  check(size.choices >= 1, "gate with {} choices", size.choices);
}

void check_size(const MatmulShape& shape) {
  check_extents("matmul", {shape.m, shape.k});
  check_extents("matmul", {shape.k, shape.n});
  check_extents("matmul", {shape.m, shape.n});
  checked_stride("matmul", shape.transpose_a ? shape.k : shape.m, shape.a_columns(),
                 shape.a_stride);
  checked_stride("matmul", shape.transpose_b ? shape.n : shape.k, shape.b_columns(),
                 shape.b_stride);
  checked_stride("matmul", shape.m, shape.n, shape.c_stride);
}

void check_size(const RouteSize& size) {
  check_extents("route", {size.batch, size.sequence, size.experts});
  check_extents("route", {size.batch, size.sequence, size.choices});
  check_entries("route", size.sequence * size.choices, size.experts, size.capacity);
  check(size.choices >= 1, "route with {} choices", size.choices);
}

void check_size(const RouterBias& args) {
  check_extents("router_bias", {args.n});
  check_at_most("router_bias: the last expert", args.first + args.n, args.experts);
  check_at_most("router_bias: the first expert", args.first, args.experts);
}

void check_router(int64_t tokens, int64_t experts, int64_t choices, int64_t counted) {
  check_extents("router losses", {tokens, experts});
  check_extents("router losses", {tokens, choices});
  check(counted >= 1 && counted <= choices, "router losses count {} of {} choices", counted,
        choices);
}

void check_prepended(const char* kernel, const SequenceSize& size) {
  check_extents(kernel, {size.batch, size.sequence, size.n});
  check_extents(kernel, {size.batch, size.sequence + 1, size.n});
}

void check_first(const char* kernel, const SequenceSize& size, bool here) {
  check_extents(kernel, {size.batch, size.sequence, size.n});
  check(!here || size.sequence > 0, "{} of sequences without a position", kernel);
}

void check_mask(const char* kernel, const DropoutMask& mask) {
  check_region(kernel, mask.region, mask.region.dims);
  check(mask.p >= 0.0F && mask.p < 1.0F, "{} with probability {}", kernel, mask.p);
  check(mask.state != nullptr, "{} without a step", kernel);
}

void check_mask_of_rows(const char* kernel, const DropoutMask& mask, int64_t rows, int64_t n) {
  if (mask.p == 0.0F) {
    return;
  }
  check_mask(kernel, mask);
  check(mask.region.elements() == rows * n &&
            (rows * n == 0 || mask.region.contiguous_run() % n == 0),
        "{}: {} rows of {} elements are no rows of the region", kernel, rows, n);
}

void check_copy(const StridedCopy& copy, const void* from, const void* to) {
  check(copy.element == 2 || copy.element == 4, "a copy of elements of {} bytes", copy.element);
  check(copy.dims >= 0 && copy.dims <= kMaxDims, "a copy of {} dimensions", copy.dims);
  for (int d = 0; d < copy.dims; ++d) {
    check_extents("a copy", {copy.extent[d]});
  }
  check(reinterpret_cast<uintptr_t>(from) % static_cast<uintptr_t>(copy.element) == 0 &&
            reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(copy.element) == 0,
        "a copy between addresses that are no multiples of {} bytes", copy.element);
}

void check_epilogue(const MatmulShape& shape, const void* bias, Activation activation,
                    const void* input) {
  check_size(shape);
  const bool gelu = activation == Activation::gelu;
  check(!shape.transpose_a, "matmul_bias of a transposed matrix");
  check(shape.m == 0 || shape.n == 0 || (bias != nullptr && gelu == (input != nullptr)),
        "matmul_bias without its bias, or with another place for its input than GELU's");
  check(activation == Activation::none || shape.ldc() == shape.n,
        "matmul_bias with an activation: rows of {} elements are {} apart", shape.n, shape.ldc());
}

void check_gelu_backward(const MatmulShape& shape) {
  check_size(shape);
  check(shape.ldc() == shape.n, "matmul_gelu_backward: rows of {} elements are {} apart", shape.n,
        shape.ldc());
}

void check_sums(const MatmulShape& shape) {
  check_size(shape);
  check(shape.transpose_a && !shape.transpose_b,
        "matmul_sums of operands that do not both have k rows");
}

}  // namespace hidup::kernels
