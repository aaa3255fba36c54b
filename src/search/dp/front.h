// The partial plans that the dynamic programming keeps.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "search/dp/advantage.h"

namespace hidup {

// A plan of the operations so far.
struct PartialPlan {
  double seconds = 0.0;  // with its bytes times SweepOptions::memory_multiplier
  Pass forward, backward;
  double bytes = 0.0;
  // Plans were dropped because this one is nearly as good, or better. An upper bound of the seconds
  // by which the best completion of one of them may beat this plan's best completion.
  double regret = 0.0;
  uint32_t parent = 0;  // the plan of the front before that this one continues
  int32_t choice = 0;   // of the last operation
};

// What plans are compared by.
struct Comparison {
  Turns forward_turns, backward_turns;
  RemainingWork forward, backward;
  bool bytes = false;  // compared too: a plan never replaces one that needs fewer bytes
};

// An upper bound of the seconds by which the best completion of `dropped` may beat that of `kept`;
// negative where it is worse for certain, infinite where there is no bound. Above `most` it need
// not be the least one that is known.
double regret_bound(const PartialPlan& kept, const PartialPlan& dropped, const Comparison& by,
                    double most = std::numeric_limits<double>::infinity());

// Drops the plans that another one dominates (regret_bound at most 0). Of what is left it keeps
// `width` plans (0: all), chosen so that the regrets of the dropped ones are small. The plans that
// stay are in the order of seconds; their regrets account for the dropped ones. Returns how many
// pairs of plans it compared.
size_t prune(std::vector<PartialPlan>& plans, size_t width, const Comparison& by);
// The same for a lower bound only. A plan may be given the open_compute of another one, if it
// dominates that one then: no plan is like it, but it is better than both. The next communication
// forgets it, while a regret is never forgotten.
size_t prune_for_bound(std::vector<PartialPlan>& plans, size_t width, const Comparison& by);

}  // namespace hidup
