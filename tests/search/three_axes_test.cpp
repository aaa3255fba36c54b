// Joint problems of three axes, near a given strategy, of small random graphs: against trying all
// plans, and against the exact search among all strategies.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "brute_force.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "joint_cases.h"
#include "random_graph.h"
#include "search/axes/near_search.h"
#include "search/dp/certify.h"
#include "search/problem/op_strategies.h"
#include "setting.h"
#include "simple_costs.h"

namespace hidup {
namespace {

constexpr size_t kAxes = 3;

// The cases have one, two and four microbatches, and three of every six a limit of memory.
TEST(ThreeAxes, TheUsualEffortFindsTheOptimumNearSomeStrategy) {
  int optima = 0;
  for (int number = 0; number < 300; ++number) {
    std::mt19937_64 random(static_cast<uint64_t>(number));
    const RandomSetting setting = random_setting(random, kAxes);
    const Strategy near = random_rules(setting, random);
    Problem problem = build_problem(setting.graph, setting.mesh, setting.costs,
                                    {.microbatches = microbatches_of(number),
                                     .bucket_bytes = kSmallBucket,
                                     .near = &near,
                                     .most_near = 4})
                          .problem;
    thin_out(problem, 1000.0, random);
    limit_every_other(number, problem);
    const double least = least_seconds(problem).value();
    const DynamicResult exact = solve(problem, {.width = 0, .states = 0});
    ASSERT_FALSE(exact.plans.empty()) << number;
    EXPECT_NEAR(exact.plans[0].cost.seconds, least, kRounding * least) << number;
    DynamicResult found = solve(problem, kUsual);
    ASSERT_FALSE(found.plans.empty()) << number;
    certify(problem, kUsual, {}, found.plans[0].cost.seconds, found);
    EXPECT_LE(found.plans[0].cost.seconds, 1.01 * least) << number;  // two by 0.2 and 1.0 %
    optima += found.plans[0].cost.seconds <= least * (1.0 + kRounding) ? 1 : 0;
    EXPECT_LE(found.lower_bound, least * (1.0 + kRounding)) << number;
    EXPECT_LE(found.plans[0].cost.bytes, problem.memory_limit) << number;
  }
  EXPECT_EQ(optima, 298);  // proofs end at their gap
}

// The exact search covers all strategies that keep the hints, by axes, and those near its result.
TEST(ThreeAxes, FindsMoreOptimaThanOneAxisAtATime) {
  int by_axes_finds = 0;
  int found = 0;
  constexpr int kSearches = 40;
  for (int number = 0; number < kSearches; ++number) {
    std::mt19937_64 random(static_cast<uint64_t>(5000 + number));
    const RandomSetting setting = random_setting(random, kAxes);
    const Hints hints = random_hints(setting, 1e7, random);
    const BuildOptions build{
        .microbatches = microbatches_of(number), .bucket_bytes = kSmallBucket, .hints = &hints};
    const double least =
        solve(build_problem(setting.graph, setting.mesh, setting.costs, build).problem,
              {.width = 0, .states = 0})
            .plans.at(0)
            .cost.seconds;
    const AxesResult by_axes =
        search_by_axes(setting.graph, setting.mesh, setting.costs, build, {});
    std::vector<FoundStrategy> near =
        search_near(setting.graph, setting.mesh, setting.costs, build, kUsual, by_axes.found[0]);
    const auto is_least = [least](const FoundStrategy& best) {
      return best.objective_s <= least * (1.0 + kRounding);
    };
    for (const FoundStrategy& each : near) {
      EXPECT_GE(each.objective_s, least * (1.0 - kRounding)) << number;
      EXPECT_LT(each.objective_s, by_axes.found[0].objective_s) << number;
      EXPECT_EQ(broken_hint(setting.graph, hints, each.strategy), "") << number;
    }
    by_axes_finds += is_least(by_axes.found[0]) ? 1 : 0;
    found += is_least(near.empty() ? by_axes.found[0] : near[0]) ? 1 : 0;
  }
  EXPECT_EQ(by_axes_finds, 34);
  EXPECT_EQ(found, 39);
}

TEST(ThreeAxes, TheSearchIsNeverWorseThanByAxesAndOftenBetter) {
  int better = 0;
  for (const int64_t experts : {0, 4}) {
    for (const int64_t batch : {4, 8, 64}) {
      Setting setting = small_setting(experts);
      setting.deck.model->hidden = 512;
      setting.deck.train->batch = batch;
      setting.mesh = {{"pod", 2}, {"node", 2}, {"gpu", 2}};
      setting.machine.links = {{.bandwidth = 2e9, .latency_s = 5e-6},
                               {.bandwidth = 1e10, .latency_s = 2e-6},
                               {.bandwidth = 5e10, .latency_s = 1e-6}};
      setting.options.microbatches = {1};
      setting.options.baselines = false;
      const AxesResult by_axes = search_by_axes(
          setting.graph(), setting.mesh, setting.costs(),
          {.bucket_bytes = setting.options.lowering.bucket_bytes}, setting.options.effort);
      const SearchOutcome found = setting.search();
      EXPECT_LE(found.objective_s, by_axes.found[0].objective_s);
      better += found.objective_s < 0.99 * by_axes.found[0].objective_s ? 1 : 0;
    }
  }
  EXPECT_EQ(better, 3);
}

TEST(ThreeAxes, StrategiesNearHaveAnotherRuleOnOneAxis) {
  std::mt19937_64 random(1);
  const RandomSetting setting = random_setting(random, kAxes);
  const Strategy known = random_rules(setting, random);
  for (OpId op = 0; op < static_cast<OpId>(setting.graph.ops().size()); ++op) {
    const OpStrategy& from = known.ops[static_cast<size_t>(op)];
    const size_t others = kAxes * (rules_of(setting.graph, op).size() - 1);
    const auto near = [&](size_t most) {
      return op_strategies_near(setting.graph, op, setting.mesh, nullptr, {from, from}, most);
    };
    const std::vector<OpStrategy> all = near(1000);
    ASSERT_EQ(all.size(), 1 + others);
    EXPECT_EQ(near(2).size(), 3U);
    for (size_t n = 0; n < all.size(); ++n) {
      int differ = 0;
      for (size_t axis = 0; axis < kAxes; ++axis) {
        differ += all[n].rules[axis] != from.rules[axis] ? 1 : 0;
      }
      EXPECT_EQ(differ, n == 0 ? 0 : 1);
      EXPECT_EQ(std::ranges::count(all, all[n]), 1);
    }
  }
}

}  // namespace
}  // namespace hidup
