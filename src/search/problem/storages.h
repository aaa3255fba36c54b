// The possible storages of an operation's parameters.
#pragma once

#include <cstddef>
#include <vector>

#include "search/problem/build_problem.h"

namespace hidup {

class Storages {
 public:
  // All arguments must outlive the object.
  Storages(const Graph& graph, const Mesh& mesh, const Hints& hints, StorageChoices choices);

  // Returns the storages: as used, with parameters or only optimizer state sharded on axes on which
  // they are replicated, and as hints ask. State is sharded on all axes, or
  // (StorageChoices::on_some_axes) on the innermost one, or on the outer one of two; parameters on
  // the same axes or fewer. All differ; those on all axes come first. `owned`: the inputs that are
  // the operation's own parameters.
  std::vector<ChoiceMeaning> of(OpId op, const OpStrategy& op_strategy,
                                const std::vector<size_t>& owned) const;

 private:
  using Axes = std::vector<bool>;  // one flag per axis of the mesh
  struct Cut {
    Axes state, storage;
  };
  static bool within(const Axes& some, const Axes& all);
  std::vector<Axes> sets_of_axes(StorageChoices choices) const;
  ParameterLayouts cut(ParameterLayouts as_used, const Cut& axes) const;
  void apply_hints(ChoiceMeaning& meaning) const;

  const Graph& graph_;
  const Mesh& mesh_;
  const Hints& hints_;
  std::vector<Cut> cuts_;
};

}  // namespace hidup
