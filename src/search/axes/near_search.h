// The search on all axes at once, near a strategy that is known.
#pragma once

#include <vector>

#include "search/axes/by_axes.h"

namespace hidup {

// A local search, where all combinations of rules are too many, or where a search among them kept
// too few states. Its neighbourhood is a problem in which every operation has the rules of the
// strategy, or another rule on one axis (BuildOptions::near). So all operations may change at once,
// each on an axis of its own, which a search of one axis at a time cannot do. It goes on near the
// best one that it found, until no search gains. Best first, all different and faster by the
// objective than `start`; empty where there are none. There is no bound, as other strategies are
// not compared.
std::vector<FoundStrategy> search_near(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                       const BuildOptions& build, const DynamicOptions& effort,
                                       FoundStrategy start);

}  // namespace hidup
