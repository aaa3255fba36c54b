// The partial plans that the dynamic programming keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "search/lane.h"

namespace hidup {

// A plan of the operations so far.
struct Member {
  double seconds = 0.0;  // with the price of its bytes
  Lane forward, backward;
  double bytes = 0.0;
  // A bound of how much better than this plan's best completion those of all the plans may be that
  // it stands for: they were dropped because it is nearly as good or better.
  double under = 0.0;
  uint32_t parent = 0;  // the member of the front before that it goes on
  int32_t choice = 0;   // of the last operation
};

// What members are compared by.
struct Comparison {
  Turns forward_turns, backward_turns;
  LaneNeeds forward, backward;
  bool bytes = false;  // they count: one with more of them never stands for one with less
};

// A bound of the seconds by which b's best completion may be better than a's; negative where it is
// worse for sure. Infinity if there is no bound.
double deficit(const Member& a, const Member& b, const Comparison& by);

// Drops the members that another one dominates (deficit at most 0), then, where more than `width`
// are left (0: any number may stay), those whose deficit is small. The members that stay come in
// the order of seconds, and stand for those that go.
void reduce(std::vector<Member>& members, size_t width, const Comparison& by);

}  // namespace hidup
