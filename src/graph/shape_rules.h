// Shape rules of the records of operations (operation.cpp): the output's shape from the shapes of
// the inputs and the attributes. Each throws Error(usage) where the inputs do not fit.
#pragma once

#include <cstddef>
#include <span>

#include "graph/graph.h"

namespace hidup {

using Shapes = std::span<const Shape>;

// Returns the first `dims` dimensions.
Shape leading(const Shape& shape, size_t dims);

Shape like_first(Shapes in, const OpAttributes& attributes);
Shape embedding_shape(Shapes in, const OpAttributes& attributes);
Shape positions_shape(Shapes in, const OpAttributes& attributes);
Shape rotary_shape(Shapes in, const OpAttributes& attributes);
Shape prepend_shape(Shapes in, const OpAttributes& attributes);
Shape first_shape(Shapes in, const OpAttributes& attributes);
Shape matmul_shape(Shapes in, const OpAttributes& attributes);
Shape bias_shape(Shapes in, const OpAttributes& attributes);
Shape add_shape(Shapes in, const OpAttributes& attributes);
Shape norm_shape(Shapes in, const OpAttributes& attributes);
Shape attention_shape(Shapes in, const OpAttributes& attributes);
Shape grouped_attention_shape(Shapes in, const OpAttributes& attributes);
Shape cross_entropy_shape(Shapes in, const OpAttributes& attributes);
Shape route_shape(Shapes in, const OpAttributes& attributes);
Shape route_biased_shape(Shapes in, const OpAttributes& attributes);
Shape route_chosen_shape(Shapes in, const OpAttributes& attributes);
Shape gate_shape(Shapes in, const OpAttributes& attributes);
Shape expert_counts_shape(Shapes in, const OpAttributes& attributes);
Shape dispatch_shape(Shapes in, const OpAttributes& attributes);
Shape expert_matmul_shape(Shapes in, const OpAttributes& attributes);
Shape expert_bias_shape(Shapes in, const OpAttributes& attributes);
Shape combine_shape(Shapes in, const OpAttributes& attributes);
Shape round_counts_shape(Shapes in, const OpAttributes& attributes);
Shape expert_pack_shape(Shapes in, const OpAttributes& attributes);
Shape expert_unpack_shape(Shapes in, const OpAttributes& attributes);

}  // namespace hidup
