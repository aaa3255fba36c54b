// The plan of the least predicted time, by dynamic programming with dominance.
//
// Operations are added one at a time. Plans of the first operations that lead to the same state
// (states.h) are compared by what they have cost and by what of it can still hide costs to come
// (lane.h): one that another is better than, whatever comes, is dropped. So that the front stays
// small, a state may keep only so many plans; each of those then accounts for how much better those
// that it stands for could have become, which gives a lower bound of the best plan's time. Where
// blocks of operations repeat and the front comes out of a block as it went in, further blocks
// need no work.
#pragma once

#include <cstddef>
#include <vector>

#include "search/problem.h"

namespace hidup {

struct DynamicOptions {
  size_t width = 2;    // plans that a state keeps; 0: all that are not dominated, the exact search
  size_t states = 40;  // states that are kept; 0: all
  size_t wide = 20;    // plans of a state in a last sweep, which bounds the time, of small problems
  int bounds = 4;      // means of computation and communication that are tried for the bound,
  double gap = 0.005;  // unless the best plan's time is above it by no more than this part
};

struct FoundPlan {
  Plan plan;
  Evaluation cost;
};

struct DynamicResult {
  std::vector<FoundPlan> plans;  // best first, different; none: there is not enough memory
  double lower_bound = 0.0;      // no plan takes less
  double least_bytes = 0.0;      // without plans: what the most frugal one that was found needs
  size_t expanded = 0;           // operations whose fronts were computed; the others were repeats
  size_t largest_front = 0;      // plans
};

// Throws Error(internal) as check_problem() does.
DynamicResult solve(const Problem& problem, const DynamicOptions& options);

}  // namespace hidup
