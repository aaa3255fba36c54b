// Search problems in which nothing overlaps: costs add up.
#pragma once

#include <functional>

#include "search/problem/problem.h"

namespace hidup {

// What to minimize the sum of: the cost of a choice, and of a reshard; finite and not negative.
// Both functions are given the costs of the original problem.
struct AdditiveObjective {
  std::function<double(const Choice&)> choice;
  std::function<double(const Reshard&)> reshard;
};

// The plan of the least sum, without regard to the memory limit. Of equal plans always the same.
Plan cheapest_plan(Problem problem, const AdditiveObjective& objective);

// The plan of the least bytes: parameters, optimizer state, gradients and what the backward pass
// needs.
Plan least_memory_plan(const Problem& problem);

}  // namespace hidup
