// The search on a mesh of several axes.
#pragma once

#include <vector>

#include "search/dp/dynamic.h"
#include "search/problem/build_problem.h"

namespace hidup {

struct FoundStrategy {
  Strategy strategy;
  double objective_s = 0.0;
  const char* by = "";  // the finder
};

struct AxesResult {
  std::vector<FoundStrategy> found;  // best first, all different; empty: none fits in memory
  std::vector<double> least_s;       // per operation: its least computation in a step
  double lower_bound = 0.0;          // of every strategy on the mesh: sum of least_s plus overhead
};

// Searches by coordinate descent: one axis at a time, with the rules of the others fixed, until no
// axis improves. (The dynamic programming cannot handle all combinations of rules on all axes.) It
// starts from two strategies: the best one with the same rule on all axes, and the one that
// replicates all work. The result is no worse than the first start, but is not proven near the
// best. An axis stays as it is if a tensor would have more than kMostLayouts layouts.
AxesResult search_by_axes(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                          const BuildOptions& build, const DynamicOptions& effort);

}  // namespace hidup
