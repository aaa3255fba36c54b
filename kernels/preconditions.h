// Checks of kernels' arguments, the same for all back ends. Violations throw Error(internal) when
// work is issued, before any of it runs. Not inline: nvcc 13 does not understand fmt 9's formats.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/region.h"

namespace hidup::kernels {

// Checks a tensor's extents: none is negative, and there are at most kMaxElements elements.
void check_extents(const char* kernel, std::initializer_list<int64_t> extents);

// Checks 0 <= value <= limit.
void check_at_most(const char* what, int64_t value, int64_t limit);

// Checks 0 <= value < 2^31, for numbers that a kernel counts with i32.
inline void check_i32(const char* what, int64_t value) {
  check_at_most(what, value, INT32_MAX);
}

// Checks a box of `dims` dimensions within the global tensor.
void check_region(const char* kernel, const Region& region, int dims);

// Checks that normalized rows have at least one element.
void check_normalized_rows(const char* kernel, int64_t rows, int64_t n);

// Checks the classes first .. first + columns - 1 of `rows` rows; i32 counts classes.
void check_classes(const char* kernel, int64_t rows, int64_t columns, int64_t first);

// Returns the elements between rows' starts: `stride` (>= `columns`), or `columns` if it is 0.
int64_t checked_stride(const char* kernel, int64_t rows, int64_t columns, int64_t stride);

enum class Activation;
struct AttentionSize;
struct DispatchSize;
struct DropoutMask;
struct EmbeddingSize;
struct ExpertCounts;
struct ExpertSize;
struct GateSize;
struct MatmulShape;
struct RotarySize;
struct RouteSize;
struct RouterBias;
template <typename Element>
struct RouterLossesBackward;
template <typename Element>
struct RouterSums;
struct SequenceSize;
struct StridedCopy;

void check_size(const AttentionSize& size);
void check_size(const DispatchSize& size);
void check_size(const EmbeddingSize& size);
void check_size(const ExpertCounts& args);
void check_size(const ExpertSize& size);
void check_size(const GateSize& size);
void check_size(const MatmulShape& shape);
void check_size(const RotarySize& size);
void check_size(const RouteSize& size);
void check_size(const RouterBias& args);

// Checks the sizes of a router's losses (router_losses.h).
void check_router(int64_t tokens, int64_t experts, int64_t choices, int64_t counted);
template <typename Element>
void check_size(const RouterSums<Element>& args) {
  check_router(args.tokens, args.experts, args.choices, args.counted);
}
template <typename Element>
void check_size(const RouterLossesBackward<Element>& args) {
  check_router(args.tokens, args.experts, args.counted, args.counted);
}

// Check the mask's region, probability and state. For rows: the region has `rows` rows of n
// elements, each contiguous in the global tensor, too. Without dropout (p = 0) all is right.
void check_mask(const char* kernel, const DropoutMask& mask);
void check_mask_of_rows(const char* kernel, const DropoutMask& mask, int64_t rows, int64_t n);

// Check the size of sequences behind a token, and that sequences have a first position if `here`.
void check_prepended(const char* kernel, const SequenceSize& size);
void check_first(const char* kernel, const SequenceSize& size, bool here);

// Checks that i32 can count the routing entries, and all slots of `experts` experts.
void check_entries(const char* kernel, int64_t entries, int64_t experts, int64_t capacity);

// Checks element size, dimensions, extents, and addresses aligned to an element.
void check_copy(const StridedCopy& copy, const void* from, const void* to);

// Checks the shape of matmul_bias(). Unless y is empty, there is a bias, and an `input` if and only
// if the activation is GELU; y is dense if there is an activation.
void check_epilogue(const MatmulShape& shape, const void* bias, Activation activation,
                    const void* input);
// Check the shapes of matmul_gelu_backward() (dense result) and matmul_sums() (operands of k rows).
void check_gelu_backward(const MatmulShape& shape);
void check_sums(const MatmulShape& shape);

}  // namespace hidup::kernels
