// Better plans from good ones.
#pragma once

#include <cstddef>
#include <vector>

#include "search/dp/dynamic.h"

namespace hidup {

// One-point crossover, as in genetic algorithms, as long as it helps: the first operations as in
// one plan, the others as in another, cut where the result is fastest. Good plans often are of this
// kind: few messages where nothing hides them, little computation elsewhere. Returns the plans that
// it finds and that fit in the memory, fastest first. `evaluations`: an upper limit of the
// operations that are evaluated, over all plans.
std::vector<FoundPlan> crossover(const Problem& problem, const std::vector<FoundPlan>& plans,
                                 size_t evaluations);

// Plans in which all operations of one kind have another choice, and the others are as given.
// Returns the `count` fastest that fit in the memory, at most one per kind.
std::vector<FoundPlan> variations(const Problem& problem, const Plan& plan, size_t count);

}  // namespace hidup
