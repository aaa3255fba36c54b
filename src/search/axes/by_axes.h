// The search on a mesh of several axes.
#pragma once

#include <vector>

#include "search/dp/dynamic.h"
#include "search/problem/build_problem.h"

namespace hidup {

struct FoundStrategy {
  Strategy strategy;
  double objective_s = 0.0;
  const char* by = "";  // who found it
};

struct AxesResult {
  std::vector<FoundStrategy> found;  // best first, all different; empty: none fits in the memory
  std::vector<double> least_s;       // per operation: it computes at least so long in a step
  double lower_bound = 0.0;          // of every strategy on the mesh: their sum, and the overhead
};

// Coordinate descent: one axis is searched at a time, with the rules of the others fixed, until no
// axis improves. (All combinations of rules on all axes are too many for the dynamic programming.)
// It starts from two strategies: the best one with the same rule on all axes, and the one that
// replicates all work. The result is no worse than the first start, but there is no proof that it
// is near the best. An axis is not changed if the rules of the other axes lead to more than
// kMostLayouts layouts of a tensor.
AxesResult search_by_axes(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                          const BuildOptions& build, const DynamicOptions& effort);

}  // namespace hidup
