// Work that several ranks do alike, because sharing it would cost more than it saves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "program/lower.h"
#include "sharding/strategy.h"

namespace hidup {

// By the ranks along an axis.
struct RepeatedAxis {
  size_t axis = 0;
  int64_t operations = 0;   // that none of them shares with the others
  double flops_part = 0.0;  // of the forward pass, that these operations have
  double step_s = 0.0;      // predicted, with one rank along the axis instead
  int64_t bytes = 0;        // that such a rank needs,
  bool fits = true;         // and has
};

struct RepeatedWork {
  int64_t operations = 0;          // of the graph
  double step_s = 0.0;             // predicted, of the strategy itself
  std::vector<RepeatedAxis> axes;  // where it makes computation longer by a quarter or more
  // With so many ranks a step is predicted to take the same time, within 1 %: one along each of
  // those axes that add nothing, where its memory suffices.
  int64_t useful_ranks = 0;
};

// Predicts steps only where work is repeated. memory_limit: bytes per rank; 0: none.
RepeatedWork repeated_work(const Graph& graph, const Strategy& strategy, const CostModel& costs,
                           const LoweringOptions& lowering, int64_t memory_limit);

// A line for people; empty where no axis repeats much. `chosen`: by a search, which was free to
// have the ranks share it.
std::string describe(const RepeatedWork& work, const Mesh& mesh, bool chosen);

}  // namespace hidup
