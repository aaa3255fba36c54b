// Finds the plan of the least predicted time by dynamic programming with dominance.
//
// The search adds one operation at a time. It compares partial plans that lead to the same state
// (states.h) by their cost so far, and by the part of it that can still hide later costs
// (advantage.h). It drops plans that another one dominates whatever follows. Each state holds at
// most a few plans (a beam). Each plan has a bound of the regret of having dropped others
// (front.h), which yields a lower bound of the best plan's time. Where blocks of operations repeat
// and the front is the same before and after a block, further blocks need no work (sweep.h).
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "core/deadline.h"
#include "search/problem/problem.h"

namespace hidup {

struct DynamicOptions {
  // The number of plans per state (beam width); 0: all undominated ones, for an exact search. With
  // 1, steps are up to 1.3 % slower; 4 takes 13 % longer and finds no faster ones.
  size_t width = 2;
  // The number of states; 0: all. 80 takes up to twice as long and finds the same.
  size_t states = 40;
  // The number of relaxations for the lower bound. With 2 it is up to 7 % lower; 8 give the same.
  int bounds = 4;
  size_t bound_work = std::numeric_limits<size_t>::max();  // of one relaxation (Expander::work())
  // Relaxation ends where the best plan is above the bound by at most this part. Smaller gaps are
  // below the errors of predictions; 0.001 and 0.02 find the same in the same time.
  double gap = 0.005;
  // Takes the plan of best_first(), and no other option. It is the best one, so its time is also
  // the lower bound.
  bool best_first = false;
  // false: where the fastest plan does not fit in memory, leaves slower ones to price_memory().
  bool price_memory = true;
  // Where memory is short, fills what the best plan leaves of the limit (descended()).
  bool fill = true;
  Deadline deadline = {};  // for everything but the first sweep
};

struct FoundPlan {
  Plan plan;
  Evaluation cost;
  const char* by = "";  // the finder, if the caller names finders
};

struct DynamicResult {
  std::vector<FoundPlan> plans;  // best first, all different; empty: no plan fits in memory
  double lower_bound = 0.0;      // of the seconds of every plan; certify() raises it
  // The fastest plans at the prices of memory tried, where these do not fit; that of price 0 first.
  std::vector<FoundPlan> too_large;
  // The last price tried of a byte, in seconds; 0 where the fastest plan fits.
  double memory_multiplier = 0.0;
  double least_bytes = 0.0;  // without plans: the least bytes of any plan found
  size_t expanded = 0;       // operations whose fronts were computed; the others repeat
  size_t largest_front = 0;  // plans
};

// Throws Error(internal) under the conditions of check_problem(), and as best_first().
DynamicResult solve(const Problem& problem, const DynamicOptions& options);

// Adds plans that fit in memory where the fastest one does not. `found`: the result of solve(),
// with the same limit of memory or a higher one; its plans that exceed the limit become too_large.
// Throws as solve().
void price_memory(const Problem& problem, const DynamicOptions& options, DynamicResult& found);

}  // namespace hidup
