// Graph + mesh + costs -> the search problem; and from its solution back to a strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/problem.h"
#include "search/rule_costs.h"
#include "sharding/hints.h"

namespace hidup {

struct BuildOptions {
  int microbatches = 1;
  int64_t bucket_bytes = int64_t{4} << 20;  // as LoweringOptions
  double memory_limit = std::numeric_limits<double>::infinity();
  bool same_rules = false;       // an operation has the same rule on all axes
  bool shard_storage = true;     // parameters may be stored in more parts than they are used in
  const Hints* hints = nullptr;  // what is decided already
};

// What a choice of the problem says: a rule per axis, and where the parameters are stored that the
// operation is the first to use.
struct ChoiceMeaning {
  OpStrategy ways;
  std::vector<ParameterLayouts>
      parameters;              // ParameterLayouts::tensor: of the first such operation
  std::vector<size_t> inputs;  // which of the operation's inputs they are
};

struct BuiltProblem {
  Problem problem;
  std::vector<std::vector<ChoiceMeaning>> meanings;  // per kind and choice
  bool defer_gradients = false;                      // of the strategy; the times take no notice
};

// Every rule of every operation on every axis; parameters stored as they are used, with the state
// of the optimizer sharded, or sharded themselves; of all that, what the hints leave (their layouts
// of parameters may be others). Operations of equal kind, shapes and attributes
// share what is computed for them.
// Throws Error(usage) where there are more than kMostLayouts layouts: without hints at hundreds of
// operations there are not, on one axis or with same_rules.
BuiltProblem build_problem(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                           const BuildOptions& options);
// None where there are.
std::optional<BuiltProblem> try_build_problem(const Graph& graph, const Mesh& mesh,
                                              const CostModel& costs, const BuildOptions& options);

Strategy to_strategy(const Graph& graph, const Mesh& mesh, const BuiltProblem& built,
                     const Plan& plan);

}  // namespace hidup
