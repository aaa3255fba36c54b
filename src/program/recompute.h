// Recomputes values that the forward pass has freed; for the sources of this folder only.
//
// Instructions of the forward pass are repeated as they are there, fused ones as one, with the same
// random numbers, from values that stayed in memory. If only the last step of a fused one is
// missing, that step alone is written. So the bits are the same. To that end the unrounded result
// of a product, which a GELU of 16 bits reads, stays in memory.
#pragma once

#include <utility>
#include <vector>

#include "program/gathered.h"
#include "program/lowering.h"

namespace hidup {

// Regathers parameters with residency Residency::pass, and repeats instructions of the forward
// pass, unchanged and in their order, from the values that stay in memory. So the results have the
// same bits, and the messages are the same.
class Recomputation {
 public:
  // `task`: the forward task; `first`: the first of its instructions, which end the program.
  // `forward`: the values that the forward passes so far left.
  Recomputation(const LoweringInput& input, const Parameters& parameters,
                const pipeline::Task& task, const ForwardState& forward, ProgramBuilder& builder,
                size_t first);

  // Returns true where some value is freed after the pass. Otherwise need() has nothing to do.
  bool is_needed() const { return is_needed_; }
  // Returns true after the first plan().
  bool is_planned() const { return is_planned_; }
  // Notes, after all earlier notes, that the operation's backward pass in the first microbatch
  // reads the values, and so plans the gathers. Precedes the first need().
  void plan(OpId op, const ValueIds& values);
  // Writes the instructions that restore the values. Messages among them wait for the uses so far
  // of the value `since`, because they could run much earlier otherwise; -1: none.
  void need(const Scope& scope, const ValueIds& values, ValueId since);
  // Returns the value that now has the content of the forward pass's value.
  ValueId now(ValueId value) const;

 private:
  static size_t index(ValueId value) { return static_cast<size_t>(value); }
  bool is_gathered(ValueId value) const { return gathered_of_[index(value)].first >= 0; }
  const Instruction& forward(int place) const {
    return builder_.program().instructions[first_ + static_cast<size_t>(place)];
  }
  void find_what_stays(const std::vector<const ForwardValues*>& forward);
  void keep(const ValueIds& values);
  void keep_parameter(TensorId id, const ValueIds& copies);
  // Leaves in memory the parameters of the last operation whose backward pass reads gathered ones.
  // This backward pass is the first to read any, so nothing would be freed between the passes.
  void keep_last_parameters(const std::vector<const ForwardValues*>& forward);
  // Leaves in memory the output of a fused 16-bit GELU whose input stays. The fused GELU reads the
  // product before rounding, so a recomputation from the rounded input would differ.
  void keep_unrounded_gelus();
  // Finds the writers of values. Keeps values that the task reads from other tasks, and those that
  // other stages sent.
  void find_writers();
  // Returns the places of the instructions to repeat for the value, rising.
  std::vector<int> missing(ValueId value, const std::vector<bool>& written) const;
  // Returns the last step of a fused instruction where only that is missing; else the instruction.
  Instruction rest_of(const Instruction& instruction) const;
  size_t list_of(const Scope& scope) const {
    return static_cast<size_t>(scope.microbatch) % written_.size();
  }
  void write(const Scope& scope, int place, ValueId since);
  ValueId recomputed_value(ValueId value);
  void gather(const Scope& scope, ValueId value);

  const LoweringInput& input_;
  const Parameters& parameters_;
  ProgramBuilder& builder_;
  const size_t first_;
  const bool is_needed_;  // otherwise all values stay in memory
  bool is_planned_ = false;
  GatheredParameters gathered_;
  // Per value of the forward pass:
  std::vector<bool> kept_;
  std::vector<std::pair<TensorId, Layout>> gathered_of_;  // the gathered parameter; -1: none
  std::vector<std::vector<int>> writers_;                 // places in the pass, rising
  ValueIds now_;                                          // the recomputed value, else -1
  std::vector<bool> planned_;                             // per instruction of the forward pass
  // Per microbatch of the group: repeated instructions, own and common; buckets with a stage.
  std::vector<std::vector<bool>> written_, started_;
};

}  // namespace hidup
