// A few training steps of a graph under a strategy, and the comparison with one rank.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "sharding/strategy.h"

namespace hidup {

// On rank 0; empty on the others.
struct ShortRun {
  std::vector<double> losses;                           // per step
  std::map<std::string, std::vector<float>> gradients;  // of step 1, by parameter, global
  std::vector<std::vector<float>> loads;                // of the last step, per MoE layer

  bool operator==(const ShortRun&) const = default;
};

// Collective. Tokens are random numbers below `vocab` by their global index. The program is
// verified on every rank.
ShortRun run_steps(const Graph& graph, const Strategy& strategy, Communicator& world, int steps,
                   int64_t vocab);

// The same on this rank alone.
ShortRun run_alone(const Graph& graph, int steps, int64_t vocab);

// All operations by the first rule (replicate), all parameters replicated.
Strategy replicated_strategy(const Graph& graph, const Mesh& mesh);

// What differs by more than 2e-5 in a loss (relative), 1e-4 in a gradient (largest difference over
// largest value of the tensor) or at all in an expert's load; empty where nothing does.
std::string differences(const ShortRun& expected, const ShortRun& found);

}  // namespace hidup
