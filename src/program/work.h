// The work of instructions: flops, bytes and sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "program/program.h"
#include "program/sizes.h"

namespace hidup {

// The work of an instruction on a rank; 0 where the rank skips it.
// - flops: a multiply-add counts as two.
// - bytes: every operand counts once; a collective counts what the rank receives or what it sends,
//   whichever is more (as nccl-tests count).
// - sizes: other sizes that the speed depends on. A product has [rows, summed, columns], with
//   experts [experts, rows of one, summed, columns]; attention has [batch x heads, sequence, head
//   size]; an optimizer has [tensors, elements]; other operations have [rows, columns] of the
//   largest operand.
// - dtype: element_dtype().
struct Work {
  double flops = 0.0;
  double bytes = 0.0;
  Sizes sizes;
  DType dtype = DType::f32;
};
Work work_of(const Program& program, const Instruction& instruction, int64_t rank);
// Returns the work on other parts than Program::expected_shape().
Work work_of(const Program& program, const Instruction& instruction, int64_t rank,
             const std::function<Shape(ValueId)>& shape_of_part);

// Groups of instructions with the same work on a rank: same operation and attributes, same axis and
// number of ranks, parts of the same sizes. Programs repeat themselves, so groups are few.
struct AlikeInstructions {
  std::vector<int> number;  // group of each instruction
  std::vector<int> first;   // first instruction of each group
};
AlikeInstructions alike_instructions(const Program& program, int64_t rank);

// Values and instructions that are alike on every rank, found once for all ranks: few are left to
// look at on each of them.
class WorkKinds {
 public:
  explicit WorkKinds(const Program& program);  // which must outlive this

  // Returns alike_instructions().
  AlikeInstructions on(int64_t rank) const;
  // Returns the expected bytes of the rank's part of a value of every kind: equal for two ranks
  // where all of their parts have the same sizes.
  std::vector<int64_t> bytes_on(int64_t rank) const;

 private:
  void find_values();
  void find_instructions();
  std::vector<int> alike_values(int64_t rank) const;

  const Program& program_;
  std::vector<int> value_kind_;       // of each value
  std::vector<ValueId> first_value_;  // of each kind
  AlikeInstructions kinds_;
  std::vector<int> means_;  // of each kind, a number for all but its operands
};

// Sets Instruction::flops and bytes to those of rank 0.
void estimate_work(Program& program);

}  // namespace hidup
