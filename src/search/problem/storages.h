// How the parameters of an operation may be stored.
#pragma once

#include <cstddef>
#include <vector>

#include "search/problem/build_problem.h"

namespace hidup {

class Storages {
 public:
  // All of them have to outlive it. `shard`: BuildOptions::shard_storage.
  Storages(const Graph& graph, const Mesh& mesh, const Hints& hints, bool shard)
      : graph_(graph), mesh_(mesh), hints_(hints), shard_(shard) {}

  // As the operation uses them; with only the optimizer's state sharded; with both sharded; and as
  // the hints have it. `owned`: which of its inputs they are.
  std::vector<ChoiceMeaning> of(OpId op, const OpStrategy& op_strategy,
                                const std::vector<size_t>& owned) const;

 private:
  std::vector<ChoiceMeaning> hinted(const std::vector<ChoiceMeaning>& all) const;
  bool shard(ParameterLayouts& parameter) const;

  const Graph& graph_;
  const Mesh& mesh_;
  const Hints& hints_;
  bool shard_;
};

}  // namespace hidup
