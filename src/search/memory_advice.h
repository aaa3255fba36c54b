// What to say where no strategy fits in the memory: how much is missing, and what would help.
#pragma once

#include <cstdint>

#include "search/memory_limit.h"

namespace hidup {

// How many searches the advice may make: from 20 for small programs down to 0, which means no
// advice, for programs so large that it would take minutes. `operations`: those that a search
// lowers and simulates, of the reduced graphs if the graph is deep. `microbatches`: the largest
// number tried.
int64_t advice_searches(int64_t operations, int64_t microbatches);

// Throws Error(infeasible) with what `least` lacks and its largest tensors. With
// SearchOptions::advice also with the changes that would do, each found by itself: no hints, the
// largest batch and its time per sequence, more microbatches (up to 16), more ranks (up to 64 times
// as many). A change is tried with strategies of little memory (visit_small_strategies()) first,
// and with a search where none of these fits, as long as advice_searches() are left.
[[noreturn]] void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                  const SearchOptions& options, const LeastMemoryStrategy& least);

}  // namespace hidup
