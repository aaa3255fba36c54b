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
  double step_s = 0.0;       // predicted for the fastest single rank along the axis
  std::string devices = {};  // class of those ranks; empty where all or none are alike
  int64_t bytes = 0;         // needed by a rank with one rank along the axis
  bool fits = true;          // `bytes` are within the memory limit
};

struct RepeatedWork {
  int64_t operations = 0;          // of the graph
  double step_s = 0.0;             // predicted for the strategy itself
  std::vector<RepeatedAxis> axes;  // axes that make computation longer by a quarter or more
  // The number of ranks predicted to take the same time per step, within 1 %: one rank along each
  // axis of `axes` that does not help, if memory suffices.
  int64_t useful_ranks = 0;
};

// Predicts steps only where work is repeated, for a deep graph on reduced graphs. memory_limit:
// bytes per rank; 0: no limit. Where ranks along an axis differ, it tries each as the only one.
RepeatedWork repeated_work(const Graph& graph, const Strategy& strategy, const RankCosts& costs,
                           const LoweringOptions& lowering, int64_t memory_limit);

// Returns a line of text, with the axes of which one rank takes the same time per step, within 1 %,
// if memory suffices. Empty where no axis repeats much. `chosen`: the strategy comes from a search
// that could have shared the work.
std::string describe(const RepeatedWork& work, const Mesh& mesh, bool chosen);

}  // namespace hidup
