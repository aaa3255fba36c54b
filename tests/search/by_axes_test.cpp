// The search on meshes of several axes.
#include "search/axes/by_axes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "core/check.h"
#include "deck/model_deck.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/named/named_strategies.h"
#include "search/problem/op_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

// Returns two machines with fast links inside.
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
  EXPECT_TRUE(outcome.lower_bound_s > 0.0 || outcome.step.strategy.defer_gradients);
  for (const Candidate& candidate : outcome.candidates) {
    const Program program = lower(graph, candidate.strategy, setting.options.lowering);
    for (int64_t rank = 0; rank < ranks_of(setting.mesh); ++rank) {
      EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
    }
  }
  for (const NamedStrategy& named : named_strategies()) {
    if (named.of_stages) {  // no search looks for pipelines
      continue;
    }
    for (const int microbatches : {1, 2, 4}) {
      Strategy strategy = named_strategy(named.name, graph, setting.mesh);
      strategy.microbatches = microbatches;
      const Program program = lower(graph, strategy, setting.options.lowering);
      EXPECT_LE(outcome.step.seconds(), simulate(program, costs).iteration_s * (1 + 1e-9))
          << named.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Experts, TwoMachines, testing::Values(0, 4));

// The proof of experts on two axes takes six times as long as the rest, and leaves the others more
// time than they take without it.
TEST(ByAxes, TheProofLeavesTimeForNamedStrategies) {
  Setting setting = two_machines(4, 4);
  setting.deck.model->layers = 6;
  const auto all_are_there = [&] {
    setting.options.level = SearchLevel::fast;
    setting.options.time_limit_s = 0.0;
    const auto began = std::chrono::steady_clock::now();
    setting.search();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    setting.options.time_limit_s = 4.0 * taken.count();
    setting.options.level = SearchLevel::thorough;
    return std::ranges::all_of(setting.search().candidates, &Candidate::feasible);
  };
  EXPECT_TRUE(all_are_there() || all_are_there() || all_are_there());  // others may take its time
}

// With few operations one search can cover all combinations.
TEST(ByAxes, FindsNearlyWhatAllCombinationsHave) {
  const Graph graph = two_products(16, 100);
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

// Slow links between the machines: they exchange less than the ranks of a machine.
TEST(ByAxes, TheAxesAreNotAlike) {
  Setting setting = two_machines(4, 0);
  setting.machine.links[0].bandwidth = 1e8;
  const Strategy found = setting.search().step.strategy;
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
  const double seconds = setting.search().step.seconds();
  setting.mesh = {{"node", 1}, {"ranks", 4}};
  setting.machine.links.insert(setting.machine.links.begin(), setting.machine.links[0]);
  EXPECT_NEAR(setting.search().step.seconds(), seconds, 1e-6 * seconds);
}

// Returns ranks along several axes of two, with links that are faster further inside.
Setting axes_of_two(size_t axes, int64_t layers) {
  Setting setting = small_setting(4);
  setting.deck.model->layers = layers;
  setting.mesh.clear();
  setting.machine.links.clear();
  for (size_t axis = 0; axis < axes; ++axis) {
    setting.mesh.push_back({"axis" + std::to_string(axis), 2});
    setting.machine.links.push_back(
        {.bandwidth = 1e9 * static_cast<double>(axis + 1), .latency_s = 5e-6});
  }
  return setting;
}

// Many operations have rules of their own on every axis, so tensors have hundreds of layouts.
TEST(ByAxes, ManyAxes) {
  for (const auto& [axes, layers] : {std::pair<size_t, int64_t>{3, 6}, {6, 1}}) {
    Setting setting = axes_of_two(axes, layers);
    setting.options.microbatches = {2};
    setting.options.baselines = false;
    setting.options.hints.defer_gradients = false;  // they would leave no lower bound
    const Graph graph = setting.graph();
    const SearchOutcome outcome = setting.search();
    EXPECT_EQ(outcome.step.strategy.mesh.size(), axes);
    EXPECT_GT(outcome.lower_bound_s, 0.0);
    EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
    const Program program = lower(graph, outcome.step.strategy, setting.options.lowering);
    EXPECT_NO_THROW(verify(program, plan_memory(program, 0)));
    EXPECT_EQ(outcome.step.seconds(), outcome.candidates[0].seconds);
    for (const Candidate& candidate : outcome.candidates) {
      EXPECT_TRUE(!candidate.feasible || outcome.step.seconds() <= candidate.seconds);
    }
  }
}

// The hints decide all rules of many operations, which all differ.
TEST(ByAxes, HintsMayHaveTooManyLayouts) {
  Setting setting = axes_of_two(8, 12);
  const Graph graph = setting.graph();
  OperationHint hint{.rules = std::vector<std::optional<Rule>>(setting.mesh.size())};
  uint64_t number = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const std::vector<Rule> rules = rules_of(graph, op);
    for (size_t axis = 0; axis + 1 < hint.rules.size(); ++axis) {
      number = number * 6364136223846793005ULL + 1442695040888963407ULL;
      hint.rules[axis] = rules[(number >> 33U) % rules.size()];
    }
    setting.options.hints.ops.push_back(hint);
  }
  try {
    setting.search();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("on this mesh of 8 axes the hints"), std::string::npos)
        << error.what();
  }
}

// Rule combinations that divide an operation differently include the one of least computation.
TEST(ByAxes, DivisionsStandForAllWays) {
  const Setting setting = [] {
    Setting three = axes_of_two(3, 2);
    three.mesh[1].size = 3;
    return three;
  }();
  const Graph graph = setting.graph();
  const CostModel costs = setting.costs();
  const RuleCosts rules(graph, setting.mesh, costs, 2, 1 << 20);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const auto least = [&](const std::vector<OpStrategy>& all) {
      double seconds = std::numeric_limits<double>::infinity();
      for (const OpStrategy& op_strategy : all) {
        const Choice choice = rules.operation(op, op_strategy);
        seconds = std::min(seconds, choice.forward_compute_s + choice.backward_compute_s);
      }
      return seconds;
    };
    const auto all = op_strategies_of(graph, op, setting.mesh, nullptr, false);
    const auto different = divisions_of(graph, op, setting.mesh, nullptr, all.size());
    EXPECT_LT(different.size(), all.size());
    EXPECT_DOUBLE_EQ(least(different), least(all));
    EXPECT_TRUE(divisions_of(graph, op, setting.mesh, nullptr, 2).empty());
  }
}

// Rules of a problem with shares take them, where they cut anything; a hint stays as it is.
TEST(ByAxes, RulesTakeTheSharesOfTheProblem) {
  Setting setting = axes_of_two(3, 2);
  setting.mesh[0].shares = {{2, 1}};
  const Graph graph = setting.graph();
  std::vector<ShareNumber> shares(setting.mesh.size());
  shares[0] = ShareNumber::of(1);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    const auto equal = op_strategies_of(graph, op, setting.mesh, nullptr, false);
    const auto unequal = op_strategies_of(graph, op, setting.mesh, nullptr, false, shares);
    ASSERT_EQ(unequal.size(), equal.size());
    for (size_t s = 0; s < equal.size(); ++s) {
      const std::vector<Rule>& rules = unequal[s].rules;
      const bool cuts = takes_share(equal[s].rules[0], setting.mesh[0], shares[0]);
      EXPECT_EQ(rules[0], cuts ? with_share(equal[s].rules[0], setting.mesh[0], shares[0])
                               : equal[s].rules[0]);
      EXPECT_EQ(rules[1], equal[s].rules[1]);
    }
    OperationHint hint{.rules = std::vector<std::optional<Rule>>(setting.mesh.size())};
    hint.rules[0] = equal.back().rules[0];
    for (const OpStrategy& hinted :
         op_strategies_of(graph, op, setting.mesh, &hint, false, shares)) {
      EXPECT_EQ(hinted.rules[0], equal.back().rules[0]);
    }
    for (const OpStrategy& near :
         op_strategies_near(graph, op, setting.mesh, nullptr, unequal, 9, shares)) {
      EXPECT_NE(std::ranges::find(unequal, near.rules, &OpStrategy::rules), unequal.end());
    }
  }
}

TEST(ByAxes, ThreeAxes) {
  Setting setting = small_setting(4);
  setting.mesh = {{"node", 2}, {"board", 2}, {"core", 2}};
  setting.machine.links.resize(3, setting.machine.links[0]);
  const SearchOutcome outcome = setting.search();
  EXPECT_EQ(outcome.step.strategy.mesh.size(), 3U);
  const Program program = lower(setting.graph(), outcome.step.strategy, setting.options.lowering);
  EXPECT_NO_THROW(verify(program, plan_memory(program, 0)));
}

}  // namespace
}  // namespace hidup
