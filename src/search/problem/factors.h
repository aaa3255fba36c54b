// Where it cannot pay to gather the factors of a gradient (Rule::factors_of), so that few problems
// have such choices.
#pragma once

#include <vector>

#include "search/problem/build_problem.h"

namespace hidup {

// Returns true if the strategies differ only on axes on which `with` gathers factors and `other`
// has the same layouts without that: the gradient's summands are sent instead.
bool is_without_factors(const OpStrategy& other, const OpStrategy& with);

// An operation, and the groups of microbatches that count as one pass (BuildOptions::accumulate).
struct FactorsOf {
  OpId op;
  double groups;
};

// Returns true where, for every storage, sending the gradient of the strategy `other`, which
// is_without_factors(), takes at most as long as gathering the factors of one microbatch and
// sending the gradient that `with` leaves. Then no plan is faster by `with` (evaluate()): it also
// computes no less, and a message once a step hides wherever the communication of a microbatch
// would.
bool sends_no_longer(const RuleCosts& costs, const FactorsOf& of, const OpStrategy& other,
                     const OpStrategy& with, const std::vector<ChoiceMeaning>& storages);

}  // namespace hidup
