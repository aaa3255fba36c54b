// Proves a program right before its first step, from the list alone: independent of
// the code that made the list and its waits.
#pragma once

#include <span>
#include <string>

#include "program/memory.h"
#include "program/program.h"

namespace hidup {

// Throws Error(internal) naming the instructions and values unless
// - every wait is for an earlier instruction of the other stream (so streams cannot
//   wait for each other in a circle);
// - every read follows a write of the same step (parameters, optimizer state and
//   inputs keep theirs);
// - two accesses of overlapping memory, one of them a write, happen in the order of
//   the list, whatever the timing of the streams;
// - what an instruction comes after (Instruction::after_uses_of) is done before it;
// - what is done again leaves what the forward pass left (verify_again.h);
// - no value's memory is written by another between its first and its last use, and
//   every value lies inside the arena;
// - what changes layouts does so by the placements of its values, what works on several values as
//   one piece of memory (OpcodeSpec::one_piece) has them there, and collectives are on the
//   communication stream;
// - the operands of every instruction are those that its opcode takes, in padded rows only where it
//   takes such (verify_operands.h);
// - every distinct rank has a part of all that it works on, and collectives are done by exactly the
//   ranks that they concern (verify_parts.h).
void verify(const Program& program, const MemoryPlan& plan);

// Throws Error(internal) naming the first difference unless all ranks issue the
// same collectives in the same order. `collectives`: print_collectives() of every rank.
void verify_ranks_agree(std::span<const std::string> collectives);

}  // namespace hidup
