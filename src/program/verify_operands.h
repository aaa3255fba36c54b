// The part of verify() about the operands of one instruction.
#pragma once

#include "program/program.h"

namespace hidup {

// Throws Error(internal) naming the instruction and the value unless, by the record of its opcode,
// - there are as many operands as it takes, of the element types that it takes;
// - an output is an input only where the instruction works in place;
// - it accumulates only where it can, and has the attributes that it needs;
// - along an axis all that it cuts has parts of one share, so that its parts belong together.
void verify_operands(const Program& program, const Instruction& instruction);

}  // namespace hidup
