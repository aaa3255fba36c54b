// Redundant work: several ranks compute the same, because sharing would cost more than it saves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/rank_costs.h"
#include "program/lower.h"
#include "sharding/strategy.h"

namespace hidup {

// The work that all ranks along an axis repeat.
struct RepeatedAxis {
  size_t axis = 0;
  int64_t operations = 0;    // computed by every rank in full
  double flops_part = 0.0;   // the part of the forward pass's flops in these operations
  double step_s = 0.0;       // predicted, with one rank along the axis instead: the fastest choice
  std::string devices = {};  // of which class those ranks are; empty where all or none are alike
  int64_t bytes = 0;         // that a rank needs then
  bool fits = true;          // whether these bytes are within the memory limit
};

struct RepeatedWork {
  int64_t operations = 0;          // of the graph
  double step_s = 0.0;             // predicted, of the strategy itself
  std::vector<RepeatedAxis> axes;  // where it makes computation longer by a quarter or more
  // The number of ranks with which a step is predicted to take the same time, within 1 %: one rank
  // along each of those axes that do not help, if the memory suffices.
  int64_t useful_ranks = 0;
};

// Predicts steps only where work is repeated; of a deep graph by reduced graphs. memory_limit:
// bytes per rank; 0: none. Where ranks along an axis differ, each of them is tried as the one that
// is left.
RepeatedWork repeated_work(const Graph& graph, const Strategy& strategy, const RankCosts& costs,
                           const LoweringOptions& lowering, int64_t memory_limit);

// One line of text, which also says of which axes more ranks than one add nothing: a step takes the
// same with one, within 1 %, if the memory suffices. Empty where no axis repeats much. `chosen`:
// the strategy comes from a search that was free to share the work.
std::string describe(const RepeatedWork& work, const Mesh& mesh, bool chosen);

}  // namespace hidup
