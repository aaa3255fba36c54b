// Proves a program right before its first step, from the list of instructions alone. The proof is
// independent of the code that made the list and its waits.
#pragma once

#include <span>
#include <string>

#include "program/memory.h"
#include "program/program.h"

namespace hidup {

// `plan`: of one rank, whose order of instructions is proven. Throws Error(internal) naming the
// instructions and values unless
// - every wait is for an earlier instruction of another stream, so streams cannot wait for each
//   other in a circle;
// - every read follows a write of the same step, except for parameters, optimizer state and inputs;
// - two accesses of overlapping memory, one of them a write, happen in the order of the list,
//   whatever the timing of the streams;
// - an instruction comes after all earlier uses of the values in its Instruction::after_uses_of;
// - every recomputation restores a value of the forward pass (verify_recompute.h);
// - no other value's write touches a value's memory between its first and its last use, and every
//   value lies inside the arena;
// - instructions that change layouts follow the placements of their values; values that one
//   instruction works on as one piece of memory (OpcodeSpec::one_piece) are contiguous; collectives
//   run on the communication streams;
// - every instruction has the operands that its opcode takes, with padded rows only where the
//   opcode takes them (verify_operands.h);
// - every distinct rank has a part of all values that it works on, and exactly the concerned ranks
//   take part in each collective (verify_parts.h).
void verify(const Program& program, const MemoryPlan& plan);

// Throws Error(internal) naming the first difference unless all ranks issue the same collectives in
// the same order. `collectives`: print_collectives() of every rank.
void verify_ranks_agree(std::span<const std::string> collectives);

}  // namespace hidup
