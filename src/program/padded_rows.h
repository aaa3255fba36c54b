// Pads the rows of matrices to begin at aligned addresses: for lower(), after fuse.h.
//
// 16-bit products are slow where rows do not begin at multiples of 16 bytes, such as those of
// logits over an odd number of classes.
#pragma once

#include <vector>

#include "program/program.h"

namespace hidup {

// Rows up to this length stay dense: they would grow by up to a quarter, and products with them
// take little time.
inline constexpr int64_t kLongestDenseRow = 256;  // elements

// Pads the rows of activations (sets Value::padded_rows) that are long and, on some rank, no
// multiple of kRowMultiple, where all operands with the value may be padded (Operand::padded). All
// such operands of one instruction are padded or none, because kernels take one row stride.
void pad_rows(Program& program);

// Returns the operands of an instruction that may be padded; none where a row of the kernel has
// several dimensions.
std::vector<ValueId> paddable_operands(const Program& program, const Instruction& instruction);

}  // namespace hidup
