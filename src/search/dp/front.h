// The partial plans of the dynamic programming.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "search/dp/advantage.h"

namespace hidup {

// A plan of the operations so far.
struct PartialPlan {
  double seconds = 0.0;  // includes its bytes times SweepOptions::memory_multiplier
  Pass forward, backward;
  double bytes = 0.0;
  // An upper bound of the seconds by which the best completion of a plan dropped for this one may
  // beat this plan's best completion.
  double regret = 0.0;
  uint32_t parent = 0;  // the plan of the previous front that this one extends
  int32_t choice = 0;   // of the last operation
};

// The basis of comparing plans.
struct Comparison {
  Turns forward_turns, backward_turns;
  RemainingWork forward, backward;
  bool bytes = false;  // compare bytes, too: no plan replaces one of fewer bytes
};

// Returns an upper bound of the seconds by which the best completion of `dropped` may beat that of
// `kept`; negative where it is certainly worse, infinite without a bound. It may be loose above
// `most`.
double regret_bound(const PartialPlan& kept, const PartialPlan& dropped, const Comparison& by,
                    double most = std::numeric_limits<double>::infinity());

// Drops dominated plans (regret_bound at most 0), then all but `width` plans (0: all), so that the
// regrets of dropped ones are small. Sorts the rest by seconds; their regrets cover the dropped
// plans. Returns the number of pairs of plans compared.
size_t prune(std::vector<PartialPlan>& plans, size_t width, const Comparison& by);
// Does the same for lower bounds only. It may give a plan the open_compute of another one where the
// plan then dominates that one: the result is no real plan, but is better than both. The next
// communication removes the open_compute, while a regret stays.
size_t prune_for_bound(std::vector<PartialPlan>& plans, size_t width, const Comparison& by);

}  // namespace hidup
