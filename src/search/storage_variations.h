// Plans that differ from one in where parameters are stored.
#pragma once

#include <vector>

#include "search/dp/dynamic.h"
#include "search/problem/build_problem.h"

namespace hidup {

// The plan with the parameters of all operations stored alike, in every way that there is
// (problem/storages.h), where that fits in the memory and is hardly slower. By the objective
// nothing hides an update; by the simulation messages of some buckets hide behind the updates of
// others.
std::vector<FoundPlan> storage_variations(const BuiltProblem& built, const Plan& plan);

}  // namespace hidup
