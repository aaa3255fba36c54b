// The plan of the least predicted time, by dynamic programming with dominance.
//
// Operations are added one at a time. Partial plans that lead to the same state (states.h) are
// compared by what they cost so far and by how much of that can still hide later costs
// (advantage.h). A plan that another one dominates, whatever comes, is dropped. A state keeps at
// most a few plans (a beam). Each of them has a bound of the regret of having dropped others
// (front.h), which gives a lower bound of the best plan's time. Where blocks of operations repeat
// and the front is the same before and after a block, further blocks need no work (sweep.h).
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "core/deadline.h"
#include "search/problem/problem.h"

namespace hidup {

struct DynamicOptions {
  // Plans that a state keeps (beam width); 0: all that are not dominated, the exact search. With 1
  // steps are up to 1.3 % slower; 4 takes 13 % longer and finds no faster ones.
  size_t width = 2;
  // States that are kept; 0: all. 80 takes up to twice as long and finds the same.
  size_t states = 40;
  // Relaxations that are solved for the lower bound. With 2 it is up to 7 % lower; 8 give the same.
  int bounds = 4;
  size_t bound_work = std::numeric_limits<size_t>::max();  // of one of them (Expander::work())
  // No more of them where the best plan is above the bound by no more than this part. A smaller gap
  // is below the errors of predictions; 0.001 and 0.02 find the same in the same time.
  double gap = 0.005;
  Deadline deadline = {};  // of all but the first sweep
};

struct FoundPlan {
  Plan plan;
  Evaluation cost;
  const char* by = "";  // who found it, where the caller names its finders
};

struct DynamicResult {
  std::vector<FoundPlan> plans;  // best first, all different; empty: no plan fits in the memory
  double lower_bound = 0.0;      // of the seconds of every plan; certify() raises it
  // Seconds that a byte costs: the least price that was tried at which the best plan fits.
  double memory_multiplier = 0.0;
  double least_bytes = 0.0;  // without plans: the least that a plan was found to need
  size_t expanded = 0;       // operations whose fronts were computed; the rest were repeats
  size_t largest_front = 0;  // plans
};

// Throws Error(internal) as check_problem() does.
DynamicResult solve(const Problem& problem, const DynamicOptions& options);

}  // namespace hidup
