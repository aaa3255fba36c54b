// The part of verify() about the operands of one instruction.
#pragma once

#include "program/program.h"

namespace hidup {

// Throws Error(internal) naming the instruction and the value unless, by its opcode's record,
// - the number and the element types of its operands are right;
// - an output is an input only where the instruction works in place;
// - it accumulates only where it can, and has the attributes that it needs;
// - all operands that are cut along an axis have parts of one share there, so that the parts match.
void verify_operands(const Program& program, const Instruction& instruction);

}  // namespace hidup
