// Plans that differ from a given one in the storage of parameters.
#pragma once

#include <vector>

#include "search/dp/dynamic.h"
#include "search/problem/build_problem.h"

namespace hidup {

// Returns, for every storage (problem/storages.h), the plan with the parameters of all operations
// stored that way, where it fits in memory and is hardly slower. The objective hides nothing behind
// an update; the simulation hides messages of some buckets behind the updates of others.
std::vector<FoundPlan> storage_variations(const BuiltProblem& built, const Plan& plan);

}  // namespace hidup
