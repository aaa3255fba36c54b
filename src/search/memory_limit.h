// The strategy that needs the least memory, where memory is short.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "search/estimate/estimate.h"
#include "search/search.h"

namespace hidup {

// Bytes that are estimated by reduced graphs are off by less than this factor (by 1.8 % at most in
// tests/search/reduced_graph_test.cpp).
constexpr double kUncertainBytes = 1.03;

// The numbers of microbatches that a search tries; at least one.
// Throws Error(usage) where the hints ask for more than the batch has.
std::vector<int> microbatches_of(const Graph& graph, const SearchOptions& options);

// The numbers of groups of so many microbatches that a search tries where memory is short.
std::vector<int> groups_of(const Graph& graph, const SearchOptions& options, int microbatches);

// The number of sequences in the batch; 1 where the batch cannot be split.
int64_t splittable_batch(const Graph& graph);

// A strategy that may need little memory, and what it needs.
struct SmallStrategy {
  const StrategyParts& parts;
  const std::vector<ReducedGraph>& reduced;  // the graphs of the parts; empty: the graph itself
  const Strategy* whole = nullptr;           // null: the named strategy, of parts[0]'s name
  int64_t bytes = 0;                         // planned_bytes() of the parts
};

// For each number of microbatches, in one group and in as many as possible: the strategy that is
// estimated to keep the fewest bytes (parameters, gradients, optimizer state, what the backward
// pass needs), as it is and with blocks computed again; fsdp with blocks computed again; and the
// named strategies, as far as they keep the hints. Ends when visit() returns true. `wanted`: by the
// strategy's name; empty: all.
void visit_small_strategies(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                            const SearchOptions& options,
                            const std::function<bool(const SmallStrategy&)>& visit,
                            const std::function<bool(std::string_view)>& wanted = {});

// The one of visit_small_strategies() that needs the least memory. Its bytes are planned for the
// whole graph where an estimate is too near the memory limit to tell whether it fits. With
// `first_that_fits` the first of those that fit, where one does: no others are built then.
LeastMemoryStrategy least_memory_strategy(const Graph& graph, const Mesh& mesh,
                                          const CostModel& costs, const SearchOptions& options,
                                          bool first_that_fits = false);

}  // namespace hidup
