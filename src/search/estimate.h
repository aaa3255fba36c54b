// What the simulation and the memory planner say of a strategy, and what the objective does.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost/simulate.h"
#include "program/lower.h"
#include "search/build_problem.h"
#include "search/excerpt.h"

namespace hidup {

// A strategy, or what of it stands for the whole.
struct StrategyParts {
  struct Part {
    const Graph* graph = nullptr;
    Strategy strategy;
    double weight = 1.0;  // excerpt.h
  };
  std::vector<Part> parts;
};

// `excerpts`: empty, or of the graph; they have to outlive the result.
StrategyParts parts_of(const Graph& graph, const std::vector<Excerpt>& excerpts,
                       const Strategy& strategy);
StrategyParts named_parts(const Graph& graph, const std::vector<Excerpt>& excerpts,
                          std::string_view name, const Mesh& mesh, int microbatches);

// Prediction::instructions is left empty.
Prediction simulated(const StrategyParts& parts, const CostModel& costs,
                     const LoweringOptions& lowering);
// Bytes of the first rank, which has the largest parts.
int64_t planned_bytes(const StrategyParts& parts, const LoweringOptions& lowering);

// The choices by which a problem of the graph computes as the strategy does; none where it does not
// have them. Parameters that it cannot store so are stored as they are used.
std::optional<std::vector<int>> choices_of(const Graph& graph, const Problem& problem,
                                           const BuiltProblem& built, const Strategy& strategy);

}  // namespace hidup
