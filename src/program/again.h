// What the backward pass reads and the forward pass has not kept; for the sources of this folder
// only.
//
// Instructions of the forward pass are written again as they are there, fused ones as one, with
// the same random numbers, from what was kept. Of a fused one of which only the last step is
// missing, that step is written. So the bits are the same. For that, what a product did not round
// before it computed a GELU of 16 bits is kept.
#pragma once

#include <utility>
#include <vector>

#include "program/gathered.h"
#include "program/lowering.h"

namespace hidup {

// Gathers parameters again that are kept for a pass, and writes instructions of the forward pass
// again, as they are and in their order, from what has been kept. So what they compute has the same
// bits, and messages are the same.
class ForwardAgain {
 public:
  // `first`: of the program's instructions, the first of the forward pass, which ends the program.
  // `forward`: what the pass left, per microbatch.
  ForwardAgain(const LoweringInput& input, const Parameters& parameters,
               const std::vector<ForwardValues>& forward, ProgramBuilder& builder, size_t first);

  // Whether anything does not stay; else all of it is there, and nothing need be asked for.
  bool is_needed() const { return is_needed_; }
  // The operation's backward pass in the first microbatch reads the values, behind all that was
  // noted before. What it gathers again is planned by that: before the first need().
  void plan(OpId op, const ValueIds& values);
  // Writes what it takes for the values to be there. `since`: a value behind whose uses so far
  // messages wait, which could come much earlier otherwise; -1: none.
  void need(const Scope& scope, const ValueIds& values, ValueId since);
  // What has the content of the forward pass's value now.
  ValueId now(ValueId value) const;

 private:
  static size_t index(ValueId value) { return static_cast<size_t>(value); }
  bool is_gathered(ValueId value) const { return gathered_of_[index(value)].first >= 0; }
  const Instruction& forward(int place) const {
    return builder_.program().instructions[first_ + static_cast<size_t>(place)];
  }
  void find_kept(const std::vector<ForwardValues>& forward);
  void keep(const ValueIds& values);
  void keep_parameter(TensorId id, const ValueIds& copies);
  // Of the last operation whose backward pass reads parameters, which is the first to read some:
  // nothing would be free between the passes.
  void keep_last_parameters(const std::vector<ForwardValues>& forward);
  // A product's GELU of 16 bits is of what was not rounded: from what is kept of that it would be
  // another one.
  void keep_unrounded_gelus();
  void find_writers();
  // Places of the instructions that are to be written again for the value, rising.
  std::vector<int> missing(ValueId value, const std::vector<bool>& written) const;
  // Of one whose last step is all that is missing: that step; otherwise the instruction.
  Instruction rest_of(const Instruction& instruction) const;
  size_t list_of(const Scope& scope) const {
    return static_cast<size_t>(scope.microbatch) % written_.size();
  }
  void write(const Scope& scope, int place, ValueId since);
  ValueId made_again(ValueId value);
  void gather(const Scope& scope, ValueId value);

  const LoweringInput& input_;
  const Parameters& parameters_;
  ProgramBuilder& builder_;
  const size_t first_;
  const bool is_needed_;  // else all is kept
  GatheredParameters gathered_;
  // Per value of the forward pass:
  std::vector<bool> kept_;
  std::vector<std::pair<TensorId, Layout>> gathered_of_;  // the parameter that it is; -1: none
  std::vector<std::vector<int>> writers_;                 // places in the pass, rising
  ValueIds now_;                                          // where it has been made again, else -1
  std::vector<bool> planned_;                             // per instruction of the forward pass
  // Per microbatch of the group: which instructions are there again, its own and those of all;
  // which buckets have their stage.
  std::vector<std::vector<bool>> written_, started_;
};

}  // namespace hidup
