// Builds the search problem from graph, mesh and costs, and strategies from its plans.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/problem/problem.h"
#include "search/problem/rule_costs.h"
#include "sharding/hints.h"

namespace hidup {

// Storage of parameters: as used, or also sharded on all axes on which they are replicated, or on
// some of these.
enum class StorageChoices { as_used, on_all_axes, on_some_axes };

struct BuildOptions {
  int microbatches = 1;                     // per group
  int accumulate = 1;                       // groups
  int64_t bucket_bytes = int64_t{4} << 20;  // as in LoweringOptions
  DType gradients_as = DType::f32;          // as in LoweringOptions
  double memory_limit = std::numeric_limits<double>::infinity();
  bool same_rules = false;  // each operation has one rule for all axes
  StorageChoices storages = StorageChoices::on_some_axes;
  // Allows parameters gathered for a pass, and recomputed operations.
  bool memory_choices = false;
  // Counts memory as with full recomputation: activations leave no room for gradients.
  bool few_activations = false;
  const Hints* hints = nullptr;  // restrict the choices
  // Not null: operations follow this strategy, which meets the hints, or change one rule on one
  // axis. Operations with shared choices have those near any of them (op_strategies_near()).
  const Strategy* near = nullptr;
  // By axis, the share of all rules that no hint gives; empty: equal parts.
  std::vector<ShareNumber> shares = {};
  // See RuleCosts(); null: a new one.
  std::shared_ptr<const ReshardCosts> reshards = nullptr;
  // The most changed strategies per operation. 16 and 128 agree within 0.1 %; 128 takes 10 %
  // longer.
  size_t most_near = 32;
};

// The meaning of a problem's choice: the operation's rules, and the storage of its parameters. A
// parameter of several readers belongs to the last one.
struct ChoiceMeaning {
  OpStrategy op_strategy;
  std::vector<ParameterLayouts> parameters;  // ::tensor: of the first operation of the kind
  std::vector<size_t> inputs;                // their places among the operation's inputs
  std::vector<Residency> residency;          // the residency of each
  uint64_t storages = 0;  // bits of the Storages that give it; some may coincide here
};

struct BuiltProblem {
  Problem problem;
  std::vector<std::vector<ChoiceMeaning>> meanings;  // per kind and choice
  bool defer_gradients = false;  // of the strategy; the problem's times ignore it
  int accumulate = 1;            // of the strategy
  // Per operation: recompute it with its readers. Outputs that no backward pass reads use memory
  // only if they are stored for recomputed readers.
  std::vector<bool> recompute_for_readers;
};

// Builds the problem. An operation's choices combine every rule on every axis with three storages
// of its parameters: as used, optimizer state sharded, or both sharded (storages.h gives the axes).
// Hints remove choices, and may ask for other layouts of parameters. Operations of equal kind,
// shapes and attributes share choices. With `accumulate`, the groups count as one pass of longer
// microbatches, so that messages once a step may hide behind all of them. `memory_choices` adds two
// options, each with and without the other: all parameters of the operation gathered for each pass,
// and the operation recomputed; hints may ask for either without it. Bytes live only during a block
// do not count. Throws Error(usage) where a tensor has more than kMostLayouts layouts. On one axis,
// or with same_rules, only hints for hundreds of operations cause that.
BuiltProblem build_problem(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                           const BuildOptions& options);
// Returns none instead of throwing that error.
std::optional<BuiltProblem> try_build_problem(const Graph& graph, const Mesh& mesh,
                                              const CostModel& costs, const BuildOptions& options);

Strategy to_strategy(const Graph& graph, const Mesh& mesh, const BuiltProblem& built,
                     const Plan& plan);

}  // namespace hidup
