// Random small graphs and clusters of one to three axes.
#pragma once

#include <random>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/problem/problem.h"
#include "sharding/hints.h"

namespace hidup {

struct RandomSetting {
  Graph graph;
  Mesh mesh;
  CostModel costs;
};
// Returns three to five operations, from an embedding to a cross entropy, on 2 x 2 or 2 x 3 ranks,
// on 2 x 2 x 2 with three axes, or on 2 to 4 with one.
RandomSetting random_setting(std::mt19937_64& random, size_t axes = 2);
// Returns a strategy with a random rule on every axis of every operation.
Strategy random_rules(const RandomSetting& setting, std::mt19937_64& random);

double plans_of(const Problem& problem);
// Removes random choices until at most `most_plans` plans are left.
void thin_out(Problem& problem, double most_plans, std::mt19937_64& random);
// Returns random rules as hints on one axis of every operation, and on both where there are many.
Hints random_hints(const RandomSetting& setting, double most_plans, std::mt19937_64& random);

}  // namespace hidup
