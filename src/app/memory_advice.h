// Advice where no strategy fits in memory: the missing bytes and the changes that help.
#pragma once

#include <cstdint>

#include "app/changes.h"

namespace hidup {

// Returns the number of searches per change: from 8 for small programs down to 0, no advice, for
// programs that would need minutes. `operations`: those that a search lowers and simulates, on
// reduced graphs if the graph is deep. `microbatches`: the largest number tried.
int64_t advice_searches(int64_t operations, int64_t microbatches);

// Returns the result of search_strategy(). Where nothing fits, throws Error(infeasible) with the
// bytes that the smallest strategy lacks, its largest tensors, and the changes that help
// (saving_changes()), nearest first, each found separately and with its predicted time. Tries each
// change first with strategies of little memory (visit_small_strategies()), then with up to
// advice_searches() searches, until the run's time limit; the text says where that ended them.
SearchOutcome search_or_advise(const PlannedRun& run);

}  // namespace hidup
