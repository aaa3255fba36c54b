// What to say where no strategy fits in the memory: how much is missing, and what would help.
#pragma once

#include <cstdint>

#include "app/changes.h"

namespace hidup {

// How many searches the advice may make for each change: from 8 for small programs down to 0, which
// means no advice, for programs so large that it would take minutes. `operations`: those that a
// search lowers and simulates, of the reduced graphs if the graph is deep. `microbatches`: the
// largest number tried.
int64_t advice_searches(int64_t operations, int64_t microbatches);

// Returns what search_strategy() finds. Where nothing fits, throws Error(infeasible) with what the
// smallest strategy lacks and its largest tensors; and with the changes that would do
// (saving_changes()), the nearest first, each found by itself and with its predicted time. A change
// is tried with strategies of little memory (visit_small_strategies()) first, and then with up to
// advice_searches() searches, until the run's time limit; where it ends them, the text says so.
SearchOutcome search_or_advise(const PlannedRun& run);

}  // namespace hidup
