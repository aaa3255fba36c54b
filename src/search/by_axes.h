// The search on a mesh of several axes.
#pragma once

#include <vector>

#include "search/build_problem.h"
#include "search/dynamic.h"

namespace hidup {

// Axes with more than one rank.
size_t axes_in_use(const Mesh& mesh);

struct FoundStrategy {
  Strategy strategy;
  double objective_s = 0.0;
};

struct AxesResult {
  std::vector<FoundStrategy> found;  // best first, different; none that fits in the memory: empty
  double lower_bound = 0.0;          // of all strategies on the mesh: their computation
};

// A rule per axis and operation has too many combinations, and states of the dynamic programming
// more still. So one axis is searched at a time, with the rules of the others as they are, until no
// axis finds better (coordinate descent), from two beginnings: the best strategy with the same
// rules on all axes, and all axes but one left without work. What is found is no worse than these,
// but not proved to be near the best. An axis for which the rules of the others differ so much from
// operation to operation that there are too many layouts (kMostLayouts) stays as it is.
AxesResult search_by_axes(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                          const BuildOptions& build, const DynamicOptions& effort);

}  // namespace hidup
