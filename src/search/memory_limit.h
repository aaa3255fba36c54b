// Where memory is short: the strategy that needs least, and what would help where that is too much.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"

namespace hidup {

// The numbers of microbatches that a search tries; at least one.
// Throws Error(usage) where the hints ask for more than the batch has.
std::vector<int> microbatches_of(const Graph& graph, const SearchOptions& options);

struct FrugalStrategy {
  Strategy strategy;
  int64_t bytes = 0;  // of the rank that needs most, of all that the program keeps
};

// Of the strategies that keep least (parameters, optimizer state, what the backward pass needs) and
// the named ones, as far as they keep the hints, that which needs the least memory.
FrugalStrategy most_frugal_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                    const SearchOptions& options);

// Throws Error(infeasible): how much is missing, the largest tensors of the strategy, and with
// which smaller batch, with how many more microbatches or ranks, or without the hints, another
// search for a frugal strategy finds one that fits (doubled or halved as often as needed, up to
// 16 microbatches and 64 times the ranks).
[[noreturn]] void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                  const SearchOptions& options, const FrugalStrategy& frugal);

}  // namespace hidup
