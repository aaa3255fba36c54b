// Improves good plans.
#pragma once

#include <cstddef>
#include <vector>

#include "search/dp/dynamic.h"

namespace hidup {

// Combines plans by one-point crossover, as in genetic algorithms, while that helps: the first
// operations follow one plan, the others another, cut where the result is fastest. Good plans often
// look like this: few messages where nothing hides them, little computation elsewhere. Returns the
// plans found that fit in memory, fastest first. `evaluations`: the most operations to evaluate,
// over all plans.
std::vector<FoundPlan> crossover(const Problem& problem, const std::vector<FoundPlan>& plans,
                                 size_t evaluations);

// Changes the choice of one operation at a time while that makes the plan faster. Returns the plan,
// which fits in memory where the first one does. A price on bytes finds only plans on the convex
// hull of time and memory; what these leave of the limit may be enough for a faster choice.
// `evaluations`: the most operations to evaluate.
Plan descended(const Problem& problem, const Plan& plan, size_t evaluations);

// Changes the choice of all operations of one kind at a time. Returns the `count` fastest plans
// that fit in memory, at most one per kind.
std::vector<FoundPlan> variations(const Problem& problem, const Plan& plan, size_t count);

}  // namespace hidup
