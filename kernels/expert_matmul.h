// Matrix products and biases of experts, each on the used rows of its buffer.
//
// The rows of an expert are contiguous, one sequence after the other. The first counts[e, b] of the
// `capacity` rows of expert e and sequence b are in use. These functions write zeros to the others,
// which must be zeros in x and dy of the products: a back end may multiply them.
//
// A packed buffer has no such rows: [experts, batch, capacity] is one dimension there, and the rows
// of a sequence follow those of the one before it (dispatch.h).
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct ExpertSize {
  int64_t experts;
  int64_t batch;
  int64_t capacity;
  int64_t k;  // width of the input
  int64_t n;  // width of the output
  bool packed = false;
  int64_t rows = 0;  // packed buffers have room for so many at least; then capacity says nothing
};

// y[e, b, r, :] = x[e, b, r, :] w[e] for r < counts[e, b].
// x: [experts, batch, capacity, k]; w: [experts, k, n]; counts: i32 [experts, batch];
// y: [experts, batch, capacity, n], which overlaps neither.
template <typename Element>
void expert_matmul(Stream& stream, const Element* x, const Element* w, const int32_t* counts,
                   Element* y, ExpertSize size);

// dx[e, b, r, :] = dy[e, b, r, :] w[e]^T for r < counts[e, b]; overwritten.
template <typename Element>
void expert_matmul_backward_input(Stream& stream, const Element* dy, const Element* w,
                                  const int32_t* counts, Element* dx, ExpertSize size);

// dw[e] (+)= the sum over b of x[e, b, :c]^T dy[e, b, :c] with c = counts[e, b].
template <typename Element>
struct ExpertMatmulBackwardWeight {
  const Element* x;       // [experts, batch, capacity, k]
  const Element* dy;      // [experts, batch, capacity, n]
  const int32_t* counts;  // i32 [experts, batch]
  float* dw;              // f32 [experts, k, n]
  ExpertSize size;
  bool accumulate;
};
template <typename Element>
void expert_matmul_backward_weight(Stream& stream, const ExpertMatmulBackwardWeight<Element>& args);

// y[e, b, r, :] = x[e, b, r, :] + bias[e] for r < counts[e, b]. Rows of width n; y may be x.
// bias: [experts, n]. The gradient of x is dy itself.
template <typename Element>
void expert_bias(Stream& stream, const Element* x, const Element* bias, const int32_t* counts,
                 Element* y, ExpertSize size);

// dbias[e] (+)= the sum of dy[e, b, r, :] over b and r < counts[e, b]; dbias: f32.
template <typename Element>
void expert_bias_backward(Stream& stream, const Element* dy, const int32_t* counts, float* dbias,
                          ExpertSize size, bool accumulate);

}  // namespace hidup::kernels
