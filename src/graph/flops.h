// What an operation computes. All of it works on global shapes and on a rank's part alike.
#pragma once

#include <span>

#include "graph/graph.h"

namespace hidup {

// Floating-point operations of the forward pass, a multiply-add as two.
double forward_flops(OpKind kind, std::span<const Shape> inputs, const Shape& output,
                     const OpAttributes& attributes);

// Floating-point operations that training the model for a step takes, however it is computed: three
// times those of the forward pass's products, for the backward pass has two of each (Chowdhery et
// al., "PaLM", 2022, appendix B; here a causal mask leaves half of the attention).
double model_flops(const Graph& graph);

// The dimensions of a product's weight: those that are summed over, and the columns.
struct WeightShape {
  Shape summed, columns;
};
WeightShape weight_shape(const Shape& weight, const MatmulAttributes& attributes);

// Extents of matmul: rows x contracted x columns, of an x[.., k] times a weight[k, ..] with
// `contract` dimensions in k; `transposed`: times a weight[.., k].
struct MatmulExtents {
  int64_t m = 1, k = 1, n = 1;
};
MatmulExtents matmul_extents(const Shape& x, const Shape& w, const MatmulAttributes& attributes);

}  // namespace hidup
