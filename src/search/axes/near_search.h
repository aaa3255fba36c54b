// The search on all axes at once, near a known strategy.
#pragma once

#include <vector>

#include "search/axes/by_axes.h"

namespace hidup {

// Searches locally, for meshes on which all combinations of rules are too many, or had too many
// states. The neighbourhood is a problem in which every operation has the rules of the strategy, or
// another rule on one axis (BuildOptions::near). So all operations may change at once, each on its
// own axis, unlike in a search of one axis at a time. It continues near the best result until no
// search gains. Returns strategies that are faster by the objective than `start`, best first, all
// different; maybe none. It gives no bound, as it does not compare other strategies.
std::vector<FoundStrategy> search_near(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                       const BuildOptions& build, const DynamicOptions& effort,
                                       FoundStrategy start);

}  // namespace hidup
