// Small graphs and clusters of two or three axes that nothing is known of.
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
// Three to five operations, from an embedding to a cross entropy, on 2 x 2 or 2 x 3 ranks; on three
// axes 2 x 2 x 2.
RandomSetting random_setting(std::mt19937_64& random, size_t axes = 2);
// A rule, at random, on every axis of every operation.
Strategy random_rules(const RandomSetting& setting, std::mt19937_64& random);

double plans_of(const Problem& problem);
// Takes choices away, at random, until there are at most so many plans.
void thin_out(Problem& problem, double most_plans, std::mt19937_64& random);
// A rule, at random, on one axis of every operation, and where they are many on both.
Hints random_hints(const RandomSetting& setting, double most_plans, std::mt19937_64& random);

}  // namespace hidup
