// The plan of the least predicted time, by dynamic programming with dominance.
//
// Operations are added one at a time. Partial plans that lead to the same state (states.h) are
// compared by what they cost so far and by how much of that can still hide later costs
// (partial_pass.h). A plan that another one dominates, whatever comes, is dropped. A state keeps at
// most a few plans (a beam). Each of them has a bound of the regret of having dropped others
// (front.h), which gives a lower bound of the best plan's time. Where blocks of operations repeat
// and the front is the same before and after a block, further blocks need no work (sweep.h).
#pragma once

#include <cstddef>
#include <vector>

#include "search/problem/problem.h"

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
  std::vector<FoundPlan> plans;  // best first, all different; empty: no plan fits in the memory
  double lower_bound = 0.0;      // of the seconds of every plan
  double least_bytes = 0.0;      // without plans: the least that a plan was found to need
  size_t expanded = 0;           // operations whose fronts were computed; the rest were repeats
  size_t largest_front = 0;      // plans
};

// Throws Error(internal) as check_problem() does.
DynamicResult solve(const Problem& problem, const DynamicOptions& options);

}  // namespace hidup
