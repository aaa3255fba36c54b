// How the parameters of an operation may be stored.
#pragma once

#include <cstddef>
#include <vector>

#include "search/problem/build_problem.h"

namespace hidup {

class Storages {
 public:
  // All of them have to outlive it.
  Storages(const Graph& graph, const Mesh& mesh, const Hints& hints, StorageChoices choices);

  // As the operation uses them; sharded on axes on which they are replicated, or with only the
  // optimizer's state sharded there; and as the hints have it. State is sharded on all axes, or
  // (StorageChoices::on_some_axes) on the innermost one, or on the outer one of two; storage on as
  // many of these or fewer. Without duplicates, those on all axes first. `owned`: which of its
  // inputs they are.
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
