// The strategies that need the least memory, for jobs that are short of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/estimate/estimate.h"
#include "search/search.h"

namespace hidup {

// Reduced graphs estimate bytes to within this factor (to 1.8 % in
// tests/search/reduced_graph_test.cpp).
constexpr double kUncertainBytes = 1.03;

// Sets the limits of ranks with this memory, in bytes; 0: no limit.
void limit_memory(SearchOptions& options, const std::vector<int64_t>& memory_of_ranks);

// Says that the candidate's planned bytes exceed the limit of their rank; empty where they fit.
std::string memory_obstacle(const Candidate& candidate, const SearchOptions& options);

// Returns the numbers of microbatches that a search tries; at least one. Throws Error(usage) where
// the hints ask for more microbatches than the batch has sequences.
std::vector<int> microbatches_of(const Graph& graph, const SearchOptions& options);

// Returns the numbers of groups, of `microbatches` each, that a search tries if memory is short.
std::vector<int> groups_of(const Graph& graph, const SearchOptions& options, int microbatches);

// Returns the least number of groups whose bytes fit in memory, among the powers of 2 up to the
// largest number that a search tries; none where none fits, or hints give the number.
std::optional<int> fewest_groups(const Graph& graph, const SearchOptions& options, int microbatches,
                                 const std::function<double(int)>& bytes);

// Returns the number of sequences in the batch; 1 where the batch cannot be split.
int64_t splittable_batch(const Graph& graph);

// A strategy that may need little memory, and its bytes.
struct SmallStrategy {
  const StrategyParts& parts;
  const std::vector<ReducedGraph>& reduced;  // graphs of the parts; empty: the graph itself
  const Strategy* whole = nullptr;           // null: the strategy named parts[0].strategy.name
  int64_t bytes = 0;                         // planned_bytes() of the parts
};

// Visits strategies that need little memory. For each number of microbatches, in one group and in
// as many as possible, these are the strategy with the fewest estimated bytes in memory
// (parameters, gradients, optimizer state, activations), with and without recomputed blocks, and
// fsdp with recomputed blocks. The named strategies follow. It leaves out those that break the
// hints, and stops when visit() returns true. `wanted`: selects strategies by name; empty: all.
void visit_small_strategies(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                            const SearchOptions& options,
                            const std::function<bool(const SmallStrategy&)>& visit,
                            const std::function<bool(std::string_view)>& wanted = {});

// Returns the strategy of visit_small_strategies() that needs the least memory. Plans its bytes for
// the whole graph where the estimate is too near the memory limit. `first_that_fits`: returns the
// first one that fits, if any, and builds no others.
LeastMemoryStrategy least_memory_strategy(const Graph& graph, const Mesh& mesh,
                                          const CostModel& costs, const SearchOptions& options,
                                          bool first_that_fits = false);

}  // namespace hidup
