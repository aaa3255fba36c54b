// Choices of an operation that trade time for memory.
#pragma once

#include <optional>
#include <vector>

#include "search/problem/build_problem.h"
#include "search/problem/transient_bytes.h"

namespace hidup {

// The cost of gathering a parameter where it is used.
struct Gather {
  double seconds = 0.0;
  TransientBytes bytes;
};

class MemoryVariants {
 public:
  // Graph and hints must outlive the object. `choose`: BuildOptions::memory_choices; false: only
  // variants that hints ask for. `reads`: backward_reads().
  MemoryVariants(const Graph& graph, const Hints& hints, bool choose, const std::vector<int>& reads,
                 const TransientMemory& transient);

  // Returns true where the operation may be recomputed: inside blocks, so that at most one block is
  // recomputed at a time; in a graph without blocks, for cheap operations.
  bool may_recompute(OpId op) const { return may_recompute_[static_cast<size_t>(op)]; }
  // See BuiltProblem::recompute_for_readers.
  const std::vector<bool>& recompute_for_readers() const { return recompute_for_readers_; }

  // Adds the choice and its variants of less memory, as far as hints allow. `gathers`: one per
  // parameter of the meaning.
  void add(OpId op, const Choice& choice, const std::vector<Gather>& gathers,
           const ChoiceMeaning& meaning, std::vector<Choice>& choices,
           std::vector<ChoiceMeaning>& meanings) const;

 private:
  void find_recomputable(const std::vector<int>& reads);
  std::optional<bool> recompute_hint(OpId op) const;
  std::vector<std::vector<Residency>> residency_choices(const ChoiceMeaning& meaning,
                                                        const std::vector<Gather>& gathers) const;

  const Graph& graph_;
  const Hints& hints_;
  bool choose_;
  const TransientMemory transient_;
  std::vector<bool> may_recompute_, recompute_for_readers_;  // per operation
};

}  // namespace hidup
