// Better plans from good ones.
#pragma once

#include <cstddef>
#include <vector>

#include "search/dynamic.h"

namespace hidup {

// Crosses plans: the first operations as in one, the others as in another, wherever that is
// fastest, as long as it helps. Plans that hide communication behind computation are of this kind:
// few messages where nothing hides them, little computation elsewhere. The plans that are found,
// and fit in the memory, fastest first. `evaluations`: at most so many operations are evaluated.
std::vector<FoundPlan> crossed(const Problem& problem, const std::vector<FoundPlan>& plans,
                               size_t evaluations);

// The plans that compute all operations of one kind in another way, and the others as they are: of
// those that fit in the memory the `count` fastest, of every kind one at most.
std::vector<FoundPlan> variations(const Problem& problem, const Plan& plan, size_t count);

}  // namespace hidup
