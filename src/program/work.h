// How much every instruction computes and moves.
#pragma once

#include "program/program.h"

namespace hidup {

// Fills Instruction::flops and bytes with those of rank 0, which holds the largest parts.
// flops: a multiply-add is two. bytes: operands once each; of a collective, its payload.
void estimate_work(Program& program);

}  // namespace hidup
