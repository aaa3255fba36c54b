// Matrices whose rows lie further apart than they are long, so that each begins at an aligned
// address: for lower(), behind fuse.h.
//
// Products in 16 bits are slow where rows do not begin at multiples of 16 bytes, as those of logits
// over an odd number of classes.
#pragma once

#include <vector>

#include "program/program.h"

namespace hidup {

// Rows that are no longer stay as they are: they would grow by up to a quarter, and products with
// them take little time.
inline constexpr int64_t kLongestDenseRow = 256;  // elements

// Pads the rows of activations (Value::padded_rows) that are long and on some rank no multiple of
// kRowMultiple, where only operands that may be padded are such values (Operand::padded). Of such
// operands of one instruction all are padded or none, for kernels take one row stride.
void pad_rows(Program& program);

// The operands of an instruction that may be padded; none where what the kernel takes as a row has
// several dimensions.
std::vector<ValueId> paddable_operands(const Program& program, const Instruction& instruction);

}  // namespace hidup
