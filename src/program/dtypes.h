// Which element types the operands of an instruction have.
#pragma once

#include <string_view>

#include "program/program.h"

namespace hidup {

// A letter per operand, inputs > outputs: i is i32, f is f32, T is any floating type, the same for
// all of an instruction; a * repeats the letter before it. Empty where types only have to agree:
// reshards keep the type, convert changes it.
std::string_view operand_dtypes(Opcode opcode);

// T of an instruction: that of its operands of 16 bits, f32 where it has none.
DType element_dtype(const Program& program, const Instruction& instruction);

// Throws Error(internal) naming the value unless the operands have the types that they should.
void check_dtypes(const Program& program, const Instruction& instruction);

}  // namespace hidup
