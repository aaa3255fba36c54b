// The choices of an operation that need less memory, for more time.
#pragma once

#include <optional>
#include <vector>

#include "search/problem/build_problem.h"
#include "search/problem/passing_bytes.h"

namespace hidup {

// Of a parameter that is gathered where it is used.
struct Gather {
  double seconds = 0.0;
  PassingBytes bytes;
};

class MemoryVariants {
 public:
  // Graph and hints have to outlive it. `choose`: BuildOptions::memory_choices; without it only
  // what the hints ask for. `reads`: backward_reads().
  MemoryVariants(const Graph& graph, const Hints& hints, bool choose, const std::vector<int>& reads,
                 const PassingMemory& passing);

  // Operations that may be computed again: those inside of blocks, so that what is computed again
  // at a time is a block at most; without blocks the cheap ones.
  bool may_be_again(OpId op) const { return may_be_again_[static_cast<size_t>(op)]; }
  // See BuiltProblem::again_for_readers.
  const std::vector<bool>& again_for_readers() const { return again_for_readers_; }

  // Adds the choice itself, and those that need less memory; as the hints have it. `gathers`: of
  // the meaning's parameters.
  void add(OpId op, const Choice& choice, const std::vector<Gather>& gathers,
           const ChoiceMeaning& meaning, std::vector<Choice>& choices,
           std::vector<ChoiceMeaning>& meanings) const;

 private:
  void find_again(const std::vector<int>& reads);
  std::optional<bool> recompute_hint(OpId op) const;
  std::vector<std::vector<Kept>> ways_to_keep(const ChoiceMeaning& meaning,
                                              const std::vector<Gather>& gathers) const;

  const Graph& graph_;
  const Hints& hints_;
  bool choose_;
  const PassingMemory passing_;
  std::vector<bool> may_be_again_, again_for_readers_;  // per operation
};

}  // namespace hidup
