// What a step would gain from one change, and what each hint costs: by searching again.
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
  std::string reason;    // why not
  double seconds = 0.0;  // of a step by the best strategy that is found then; 0 if none is
  double gain = 0.0;     // the part of the step's time that goes; negative if it takes longer
  double at_most = 1.0;  // no strategy gains more, by the search's lower bound; 1: none is known
};

struct WhatIfReport {
  double now_s = 0.0;  // of a step by the best strategy as things are
  std::vector<WhatIf> changes;
};

// Searches for each of single_changes() by itself, on options.threads threads. The batch stays. A
// change that keeps the best strategy possible never makes a step longer: only more ranks and
// other messages for gradients can.
// Throws as search_or_advise() does where nothing fits as things are.
WhatIfReport what_if(const PlannedRun& run);

}  // namespace hidup
