// How much every instruction computes and moves.
#pragma once

#include "program/program.h"

namespace hidup {

// Fills Instruction::flops and bytes with those of rank 0, which holds the largest parts.
// flops: a multiply-add is two. bytes: operands once each; of a collective, what it
// takes in or gives out, whichever is more (as nccl-tests count).
void estimate_work(Program& program);

}  // namespace hidup
