// The search on meshes of several axes.
#include "search/by_axes.h"

#include <gtest/gtest.h>

#include "graph/text.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/named.h"
#include "setting.h"

namespace hidup {
namespace {

// Two machines, with fast links inside.
Setting two_machines(int64_t ranks_of_each, int64_t experts) {
  Setting setting = small_setting(experts);
  setting.mesh = {{"node", 2}, {"core", ranks_of_each}};
  setting.machine.links = {{.bandwidth = 1e9, .latency_s = 2e-5},
                           {.bandwidth = 2e10, .latency_s = 5e-6}};
  return setting;
}

class TwoMachines : public testing::TestWithParam<int64_t> {};

TEST_P(TwoMachines, WhatIsFoundIsRightAndNoWorseThanNamedStrategies) {
  const Setting setting = two_machines(2, GetParam());
  const Graph graph = setting.graph();
  const CostModel costs = setting.costs();
  const SearchOutcome outcome = setting.search();
  EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
  EXPECT_GT(outcome.lower_bound_s, 0.0);
  for (const Candidate& candidate : outcome.candidates) {
    const Program program = lower(graph, candidate.strategy, setting.options.lowering);
    for (int64_t rank = 0; rank < ranks_of(setting.mesh); ++rank) {
      EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
    }
  }
  for (const NamedStrategy& named : named_strategies()) {
    for (const int microbatches : {1, 2, 4}) {
      Strategy strategy = named_strategy(named.name, graph, setting.mesh);
      strategy.microbatches = microbatches;
      const Program program = lower(graph, strategy, setting.options.lowering);
      EXPECT_LE(outcome.seconds, simulate(program, costs).iteration_s * (1 + 1e-9)) << named.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Experts, TwoMachines, testing::Values(0, 4));

// Of a few operations all combinations can be searched at once.
TEST(ByAxes, FindsNearlyWhatAllCombinationsHave) {
  const Graph graph = parse_graph(R"(graph small
input tokens : i32[16, 32]
input targets : i32[16, 32]
parameter table : f32[100, 64] = uniform(0.1) decay
parameter up : f32[64, 256] = uniform(0.1) decay
parameter down : f32[256, 100] = uniform(0.1) decay
x = embedding(tokens, table)
y = matmul(x, up)
z = relu(y)
logits = matmul(z, down)
loss = cross_entropy(logits, targets)
)",
                                  "small");
  for (const double bandwidth : {1e8, 1e9, 1e10}) {
    Setting setting = two_machines(2, 0);
    setting.machine.links[0].bandwidth = bandwidth;
    const CostModel costs = setting.costs();
    for (const int microbatches : {1, 2}) {
      const BuildOptions build = {.microbatches = microbatches, .bucket_bytes = 1 << 16};
      const BuiltProblem all = build_problem(graph, setting.mesh, costs, build);
      const DynamicResult best = solve(all.problem, {.bounds = 0});
      const AxesResult found = search_by_axes(graph, setting.mesh, costs, build, {});
      ASSERT_FALSE(found.found.empty());
      EXPECT_LE(found.found[0].objective_s, 1.05 * best.plans[0].cost.seconds);
      EXPECT_GE(found.found[0].objective_s, best.lower_bound * (1 - 1e-9));
      EXPECT_LE(found.lower_bound, best.plans[0].cost.seconds);
    }
  }
}

// Slow links between the machines: they exchange less than the ranks of a machine do.
TEST(ByAxes, TheAxesAreNotAlike) {
  const Setting setting = two_machines(4, 0);
  const Strategy found = setting.search().strategy;
  bool differ = false;
  for (const OpStrategy& op : found.ops) {
    differ |= op.rules[0] != op.rules[1];
  }
  EXPECT_TRUE(differ);
}

TEST(ByAxes, AnAxisOfOneRankIsNoneInUse) {
  EXPECT_EQ(axes_in_use({{"node", 1}, {"core", 4}}), 1U);
  EXPECT_EQ(axes_in_use({{"node", 2}, {"board", 2}, {"core", 4}}), 3U);
  Setting setting = small_setting();
  const double seconds = setting.search().seconds;
  setting.mesh = {{"node", 1}, {"ranks", 4}};
  setting.machine.links.insert(setting.machine.links.begin(), setting.machine.links[0]);
  EXPECT_NEAR(setting.search().seconds, seconds, 1e-6 * seconds);
}

TEST(ByAxes, ThreeAxes) {
  Setting setting = small_setting(4);
  setting.mesh = {{"node", 2}, {"board", 2}, {"core", 2}};
  setting.machine.links.resize(3, setting.machine.links[0]);
  const SearchOutcome outcome = setting.search();
  EXPECT_EQ(outcome.strategy.mesh.size(), 3U);
  const Program program = lower(setting.graph(), outcome.strategy, setting.options.lowering);
  EXPECT_NO_THROW(verify(program, plan_memory(program, 0)));
}

}  // namespace
}  // namespace hidup
