// What to say where no strategy fits in the memory: how much is missing, and what would help.
#pragma once

#include <cstdint>

#include "search/memory_limit.h"

namespace hidup {

// How many searches the advice may take, for graphs of that many operations: 0 where the advice
// would take minutes, else from 4 to 20. `operations`: those that are lowered and simulated.
// `microbatches`: the largest number that is tried.
int64_t advice_searches(int64_t operations, int64_t microbatches);

// Throws Error(infeasible) with what `least` lacks and its largest tensors. With
// SearchOptions::advice also with the changes that would do, each found by itself: no hints, the
// largest batch and its time per sequence, more microbatches (up to 16), more ranks (up to 64 times
// as many). A change is tried with strategies of little memory (visit_small_strategies()) first,
// and with a search where none of these fits, as long as advice_searches() are left.
[[noreturn]] void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                  const SearchOptions& options, const LeastMemoryStrategy& least);

}  // namespace hidup
