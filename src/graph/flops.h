// Flops and extents of operations, for global shapes and for the parts of ranks.
#pragma once

#include <span>

#include "graph/graph.h"

namespace hidup {

// Returns the floating-point operations of the forward pass; a multiply-add counts as two.
double forward_flops(OpKind kind, std::span<const Shape> inputs, const Shape& output,
                     const OpAttributes& attributes);

// Returns the floating-point operations of the forward pass of an operation of the graph.
double forward_flops(const Graph& graph, const Op& op);

// Returns the floating-point operations that a training step needs, however it is computed: three
// times those of the forward pass's products, because the backward pass has two of each (Chowdhery
// et al., "PaLM", 2022, appendix B; here a causal mask leaves half of the attention).
double model_flops(const Graph& graph);

// The dimensions of a product's weight: the dimensions that are summed over, and the columns.
struct WeightShape {
  Shape summed, columns;
};
WeightShape weight_shape(const Shape& weight, const MatmulAttributes& attributes);

// Extents of a matmul: rows, contracted, columns. It multiplies x[.., k] by weight[k, ..], with
// `contract` dimensions in k, or by weight[.., k] where `transposed`.
struct MatmulExtents {
  int64_t m = 1, k = 1, n = 1;
};
MatmulExtents matmul_extents(const Shape& x, const Shape& w, const MatmulAttributes& attributes);

}  // namespace hidup
