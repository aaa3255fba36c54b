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

// Throws Error(infeasible): how much is missing, the largest tensors of the strategy, and, if
// advice is asked for, what would do: no hints, the largest batch and its time per sequence, more
// microbatches (up to 16), more ranks (up to 64 times). It takes frugal strategies for some 20
// batches at most (it halves), and a search where they do not fit: up to 10 for batches, 6 for
// ranks, 4 for microbatches, one without the hints; for large programs 4 in all.
[[noreturn]] void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                  const SearchOptions& options, const FrugalStrategy& frugal);

}  // namespace hidup
