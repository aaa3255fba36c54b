// State that a rank's watchdog tells the others, and conclusions from the states of all ranks. For
// the sources of this folder and its tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/watchdog.h"

namespace hidup {

// A group, and the place of a rank in it.
struct Presence {
  std::vector<int> members;
  CollectivePlace place;
};

// The places of a rank: all groups where it waits, or else the group where it came last.
struct Standing {
  std::string failure;
  bool busy = false;  // it waits for no rank and is in no step: it goes on by itself
  double idle = 0.0;  // seconds for which it has not moved
  std::string where;  // "in step 4, at x"; empty where unknown
  std::vector<Presence> at;

  bool waits() const { return !at.empty() && at.front().place.waiting; }
  bool waits_in(const Presence& other) const;
};

using Standings = std::map<int, Standing>;  // by rank

// Convert a standing to the text of a message, and back.
std::string print(const Standing& standing);
Standing parse_standing(const std::string& text);

// Names the awaited rank and its collective, or a collective that does not end though all came.
std::string explain(const Standings& standings);

}  // namespace hidup
