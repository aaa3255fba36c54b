// What to say where no strategy fits in the memory: how much is missing, and what would help.
#pragma once

#include <cstdint>

#include "search/memory_limit.h"

namespace hidup {

// How many searches the advice may make for each change: from 8 for small programs down to 0, which
// means no advice, for programs so large that it would take minutes. `operations`: those that a
// search lowers and simulates, of the reduced graphs if the graph is deep. `microbatches`: the
// largest number tried.
int64_t advice_searches(int64_t operations, int64_t microbatches);

// Throws Error(infeasible) with what `least` lacks and its largest tensors. With
// SearchOptions::advice also with the changes that would do, the nearest first, each found by
// itself and with its predicted time: no hints, the largest batch, more microbatches (up to 16),
// more ranks (up to 64 times as many; CostModel::with_ranks()), bf16. A change is tried with
// strategies of little memory (visit_small_strategies()) first, and then with up to
// advice_searches() searches, until the deadline; where it ends them, the text says so.
[[noreturn]] void fail_infeasible(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                  const SearchOptions& options, const LeastMemoryStrategy& least,
                                  const Deadline& deadline);

}  // namespace hidup
