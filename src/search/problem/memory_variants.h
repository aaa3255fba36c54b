// Choices of an operation that trade time for memory.
#pragma once

#include <optional>
#include <vector>

#include "search/problem/build_problem.h"
#include "search/problem/passing_bytes.h"

namespace hidup {

// The cost of gathering a parameter where it is used.
struct Gather {
  double seconds = 0.0;
  PassingBytes bytes;
};

class MemoryVariants {
 public:
  // Graph and hints must outlive the object. `choose`: BuildOptions::memory_choices; false: only
  // variants that hints ask for. `reads`: backward_reads().
  MemoryVariants(const Graph& graph, const Hints& hints, bool choose, const std::vector<int>& reads,
                 const PassingMemory& passing);

  // Returns true where the operation may be recomputed: inside blocks, so that at most one block is
  // recomputed at a time; in a graph without blocks, for cheap operations.
  bool may_be_again(OpId op) const { return may_be_again_[static_cast<size_t>(op)]; }
  // See BuiltProblem::again_for_readers.
  const std::vector<bool>& again_for_readers() const { return again_for_readers_; }

  // Adds the choice and its variants of less memory, as far as hints allow. `gathers`: one per
  // parameter of the meaning.
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
