// The sizes that the speed of an instruction depends on. Profiles are looked up by them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shape.h"
#include "program/attributes.h"

namespace hidup {

using Sizes = std::vector<int64_t>;

// Returns [rows, columns] of the largest operand.
Sizes rows_and_columns(const InstructionAttributes& attributes, std::span<const Shape> in,
                       std::span<const Shape> out);
// Returns [tensors, elements] of all inputs.
Sizes tensors_and_elements(const InstructionAttributes& attributes, std::span<const Shape> in,
                           std::span<const Shape> out);
// Returns [rows, summed, columns] of x [rows, summed] * weight [summed, columns] -> y.
Sizes product_sizes(const InstructionAttributes& matmul, const Shape& x, const Shape& y);
// Returns [experts, rows of one, summed, columns] for buffers [experts, batch, capacity, ..].
Sizes expert_sizes(const Shape& x, const Shape& y);
// Returns [batch x heads, sequence, head size] for y [batch, sequence, ..] and lse [batch, heads,
// sequence].
Sizes attention_sizes(const Shape& y, const Shape& lse);

}  // namespace hidup
