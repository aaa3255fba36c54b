// How much every instruction computes and moves.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/sizes.h"

namespace hidup {

// flops: a multiply-add is two. bytes: operands once each; of a collective, what it takes in or
// gives out, whichever is more (as nccl-tests count). sizes: what else the speed depends on: of a
// product [rows, summed, columns], with experts [experts, rows of one, summed, columns]; of an
// attention [batch x heads, sequence, head size]; of the other operations [rows, columns] of the
// largest operand; of an optimizer's [tensors, elements]. dtype: element_dtype().
// Nothing of what the rank skips.
struct Work {
  double flops = 0.0;
  double bytes = 0.0;
  Sizes sizes;
  DType dtype = DType::f32;
};
Work work_of(const Program& program, const Instruction& instruction, int64_t rank);

// Instructions that do the same on a rank: one operation with one set of attributes, along one
// axis by as many ranks, on operands whose parts have the same sizes. Programs repeat themselves,
// so few differ.
struct AlikeInstructions {
  std::vector<int> number;  // per instruction
  std::vector<int> first;   // per number: the first such instruction
};
AlikeInstructions alike_instructions(const Program& program, int64_t rank);

// Fills Instruction::flops and bytes with those of rank 0.
void estimate_work(Program& program);

}  // namespace hidup
