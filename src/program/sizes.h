// The sizes that the speed of an instruction depends on, by which profiles are looked up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shape.h"
#include "program/attributes.h"

namespace hidup {

using Sizes = std::vector<int64_t>;

// [rows, columns] of the largest operand.
Sizes rows_and_columns(const InstructionAttributes& attributes, std::span<const Shape> in,
                       std::span<const Shape> out);
// [tensors, elements] of all inputs.
Sizes tensors_and_elements(const InstructionAttributes& attributes, std::span<const Shape> in,
                           std::span<const Shape> out);
// [rows, summed, columns] of the product x [rows, summed] * weight [summed, columns] -> y.
Sizes product_sizes(const InstructionAttributes& matmul, const Shape& x, const Shape& y);
// [experts, rows of one, summed, columns] of products of buffers [experts, batch, capacity, ..].
Sizes expert_sizes(const Shape& x, const Shape& y);
// [batch x heads, sequence, head size] of y [batch, sequence, ..] with lse [batch, heads,
// sequence].
Sizes attention_sizes(const Shape& y, const Shape& lse);

}  // namespace hidup
