// Simulated time, planned memory and objective of a strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost/simulate.h"
#include "program/lower.h"
#include "program/memory.h"
#include "search/estimate/reduced_graph.h"
#include "search/problem/build_problem.h"

namespace hidup {

// A strategy of a graph, or its parts on the reduced graphs of a deep graph.
struct StrategyParts {
  struct Part {
    const Graph* graph = nullptr;
    Strategy strategy;
    double weight = 1.0;  // ReducedGraph::weight
  };
  std::vector<Part> parts;
};

// Returns the strategy's part on each graph of `reduced` (reduced_graphs_of()), or on the graph
// itself if that is empty. The graphs must outlive the result.
StrategyParts parts_of(const Graph& graph, const std::vector<ReducedGraph>& reduced,
                       const Strategy& strategy);
StrategyParts named_parts(const Graph& graph, const std::vector<ReducedGraph>& reduced,
                          std::string_view name, const Mesh& mesh, int microbatches);

// Returns the weighted sum over the parts, and sets their routes and algorithms (lower_by_costs()).
// `ranks`: the costs of every rank; `costs`, by which routes are chosen, are of the strategies'
// mesh. `bytes`: receives planned_bytes(), unless null. Prediction::instructions stays empty.
Prediction simulated(StrategyParts& parts, const ReshardCosts& costs, const RankCosts& ranks,
                     const LoweringOptions& lowering, int64_t* bytes = nullptr);
// Returns the bytes of the rank that needs most.
int64_t planned_bytes(const StrategyParts& parts, const LoweringOptions& lowering);

// The planned bytes of a rank.
struct RankBytes {
  int64_t rank = 0;
  int64_t bytes = 0;
};
// Returns those of the rank that uses the largest part of its limit.
RankBytes tightest_bytes(const StrategyParts& parts, const LoweringOptions& lowering,
                         const RankLimits& limits);

// Returns the problem's choices for the strategy; none where it lacks one. A parameter without a
// choice of its storage counts as stored as used.
std::optional<std::vector<int>> choices_of(const Graph& graph, const Problem& problem,
                                           const BuiltProblem& built, const Strategy& strategy);

}  // namespace hidup
