// The gain of a step from each change, and the cost of each hint, found by searching again.
#pragma once

#include <string>
#include <vector>

#include "app/changes.h"

namespace hidup {

struct WhatIf {
  std::string kind;      // bandwidth, memory, ranks, gradients or hint
  std::string of;        // the axis, or the hint: "layers.*.attention by head"
  std::string what;      // "bandwidth of axis node x 2"
  bool feasible = true;  // a strategy fits
  std::string reason;    // why it is infeasible
  double seconds = 0.0;  // of a step by the best strategy after the change; 0: none
  double gain = 0.0;     // the part of the step's time saved; negative if it grows
  double at_most = 1.0;  // limit of the gain, by the search's lower bound; 1: unknown
};

struct WhatIfReport {
  double now_s = 0.0;  // of a step by the best strategy before any change
  std::vector<WhatIf> changes;
};

// Searches for each of single_changes() separately, on options.threads threads. The batch stays. A
// change that keeps the best strategy possible never makes a step longer: only more ranks and other
// messages for gradients can. Throws as search_or_advise() where nothing fits without a change.
WhatIfReport what_if(const PlannedRun& run);

}  // namespace hidup
