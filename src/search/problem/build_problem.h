// Graph + mesh + costs -> the search problem; and its solution -> a strategy.
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

// In how many parts parameters may be stored: as they are used, in more parts on all axes on which
// they are replicated, or on some of these.
enum class StorageChoices { as_used, on_all_axes, on_some_axes };

struct BuildOptions {
  int microbatches = 1;                     // of a group
  int accumulate = 1;                       // groups
  int64_t bucket_bytes = int64_t{4} << 20;  // this and the next as LoweringOptions
  DType gradients_as = DType::f32;
  double memory_limit = std::numeric_limits<double>::infinity();
  bool same_rules = false;  // an operation has the same rule on all axes
  StorageChoices storages = StorageChoices::on_some_axes;
  // Parameters may be kept for a pass only, and operations be computed again.
  bool memory_choices = false;
  // The memory counts as where all is computed again: activations leave no room for gradients.
  bool few_activations = false;
  const Hints* hints = nullptr;  // restrict the choices
  // Not null: an operation is computed as in this strategy, which keeps the hints, or with another
  // rule on one axis. Operations that share their choices have what is near any of them
  // (op_strategies_near()).
  const Strategy* near = nullptr;
  // As RuleCosts() takes them.
  std::shared_ptr<const ReshardCosts> reshards = nullptr;
  // With another rule, per operation. 16 and 128 find steps within 0.1 %; 128 takes a tenth longer.
  size_t most_near = 32;
};

// What a choice of the problem stands for: the operation's rules, and where its parameters are
// stored. A parameter that several operations read belongs to the last of them.
struct ChoiceMeaning {
  OpStrategy op_strategy;
  std::vector<ParameterLayouts> parameters;  // ::tensor: of the first operation of the kind
  std::vector<size_t> inputs;                // which of the operation's inputs they are
  std::vector<Kept> kept;                    // each of them
  uint64_t storages = 0;  // which ones of Storages they are, a bit each: some may be the same here
};

struct BuiltProblem {
  Problem problem;
  std::vector<std::vector<ChoiceMeaning>> meanings;  // per kind and choice
  bool defer_gradients = false;  // of the strategy; the problem's times do not depend on it
  int accumulate = 1;            // of the strategy
  // Per operation: whether it is computed again where one that reads it is. What no backward pass
  // reads costs no memory unless it is kept for that.
  std::vector<bool> again_for_readers;
};

// The choices of an operation: every rule on every axis, each with its parameters stored as they
// are used, with only the optimizer's state sharded, and with both sharded (storages.h: on which
// axes). Hints remove choices, and may ask for other layouts of parameters. Operations of equal
// kind, shapes and attributes share their choices. With `accumulate` the groups count as one pass
// of longer microbatches: what is sent once a step may hide behind all of them. With
// `memory_choices` there are two more, each with and without the other: all parameters of the
// operation gathered for each pass, and the operation computed again; hints may ask for either
// without it. The bytes of what is there only while a block is computed do not count. Throws
// Error(usage) where a tensor has more than kMostLayouts layouts. On one axis, or with same_rules,
// that takes hints for hundreds of operations.
BuiltProblem build_problem(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                           const BuildOptions& options);
// None instead of that error.
std::optional<BuiltProblem> try_build_problem(const Graph& graph, const Mesh& mesh,
                                              const CostModel& costs, const BuildOptions& options);

Strategy to_strategy(const Graph& graph, const Mesh& mesh, const BuiltProblem& built,
                     const Plan& plan);

}  // namespace hidup
