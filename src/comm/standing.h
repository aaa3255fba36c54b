// What a rank's watchdog tells the others, and what follows from what all say. For the sources of
// this folder and its tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/watchdog.h"

namespace hidup {

// A group, and where a rank is in it.
struct Presence {
  std::vector<int> members;
  CollectivePlace place;
};

// Where a rank is: in all groups where it waits, or else where it came last.
struct Standing {
  std::string failure;
  bool busy = false;  // it waits for no rank and is in no step: it goes on by itself
  double idle = 0.0;  // seconds for which it has not moved
  std::string where;  // "in step 4, at x"; empty where that is not known
  std::vector<Presence> at;

  bool waits() const { return !at.empty() && at.front().place.waiting; }
  bool waits_in(const Presence& other) const;
};

using Standings = std::map<int, Standing>;  // by rank

// As a message has it, and back.
std::string print(const Standing& standing);
Standing parse_standing(const std::string& text);

// Which rank the others wait for, and in what; or which collective does not end though all came.
std::string explain(const Standings& standings);

}  // namespace hidup
