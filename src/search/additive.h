// Search problems in which nothing overlaps: costs just add up.
#pragma once

#include <functional>

#include "search/problem.h"

namespace hidup {

// What a choice, or a reshard, counts for; finite and not negative. Both see the costs of the given
// problem.
struct Tariff {
  std::function<double(const Choice&)> choice;
  std::function<double(const Reshard&)> reshard;
};

// The choices of least sum; the limit of memory does not matter. Of equal sums always the same.
Plan cheapest_plan(Problem problem, const Tariff& tariff);

// The plan that keeps the least bytes.
Plan most_frugal_plan(const Problem& problem);

}  // namespace hidup
