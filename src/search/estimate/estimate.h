// The simulated time, the planned memory and the objective of a strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost/simulate.h"
#include "program/lower.h"
#include "search/estimate/reduced_graph.h"
#include "search/problem/build_problem.h"

namespace hidup {

// A strategy of a graph; or its parts on reduced graphs, which represent a deep graph.
struct StrategyParts {
  struct Part {
    const Graph* graph = nullptr;
    Strategy strategy;
    double weight = 1.0;  // ReducedGraph::weight
  };
  std::vector<Part> parts;
};

// `reduced`: reduced_graphs_of() the graph; if empty, the only part is the graph itself. It has to
// outlive the result.
StrategyParts parts_of(const Graph& graph, const std::vector<ReducedGraph>& reduced,
                       const Strategy& strategy);
StrategyParts named_parts(const Graph& graph, const std::vector<ReducedGraph>& reduced,
                          std::string_view name, const Mesh& mesh, int microbatches);

// The weighted sum over the parts, which get their routes and algorithms (lower_by_costs()).
// `bytes`: takes planned_bytes(), unless it is null. Prediction::instructions stays empty.
Prediction simulated(StrategyParts& parts, const ReshardCosts& costs,
                     const LoweringOptions& lowering, int64_t* bytes = nullptr);
// Bytes of the first rank, which has the largest shards.
int64_t planned_bytes(const StrategyParts& parts, const LoweringOptions& lowering);

// The choices that stand for the strategy; none where the problem lacks one. A parameter that no
// choice stores as the strategy does is taken to be stored as it is used.
std::optional<std::vector<int>> choices_of(const Graph& graph, const Problem& problem,
                                           const BuiltProblem& built, const Strategy& strategy);

}  // namespace hidup
