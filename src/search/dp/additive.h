// Search problems without overlap, in which costs add up.
#pragma once

#include <functional>

#include "search/problem/problem.h"

namespace hidup {

// The costs to minimize the sum of: of a choice and of a reshard, finite and not negative. Both
// functions receive the costs of the original problem.
struct AdditiveObjective {
  std::function<double(const Choice&)> choice;
  std::function<double(const Reshard&)> reshard;
};

// Returns the plan of the least sum, ignoring the memory limit. Ties always give the same plan.
Plan cheapest_plan(Problem problem, const AdditiveObjective& objective);

// Returns the plan of the fewest bytes: parameters, optimizer state, gradients and activations.
Plan least_memory_plan(const Problem& problem);

}  // namespace hidup
