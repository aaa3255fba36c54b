// What a step would gain from one change, and what each hint costs: by searching again.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "search/search.h"

namespace hidup {

// The costs of such a mesh, along one axis of which, if any, links have twice the bandwidth.
// Nothing where they are not known. Called by several threads.
using CostsOf =
    std::function<std::optional<CostModel>(const Mesh& mesh, std::optional<size_t> twice_as_fast)>;

struct WhatIf {
  std::string kind;      // bandwidth, memory, ranks or hint
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

// For every axis of several ranks twice the bandwidth, for every axis twice the ranks, twice the
// memory where it is limited, and no longer each of the hints, also the only number of microbatches
// in the options if that is not 1, 2 and 4. Hints of alike operations or parameters
// (pattern_of()) are one. Each is searched for by itself, on options.threads threads. The batch
// stays. What a change leaves possible counts as found: only more ranks can make a step longer.
// Throws as search_strategy() does where nothing fits as things are.
WhatIfReport what_if(const Graph& graph, const Mesh& mesh, const SearchOptions& options,
                     const CostsOf& costs_of);

}  // namespace hidup
