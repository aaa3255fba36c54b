// Plans for ranks that compute at different paces.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/costs.h"
#include "app/planning.h"
#include "app/run_search.h"
#include "program/memory.h"
#include "search/named/named_strategies.h"
#include "search/new_shares.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

using Overrides = std::vector<std::string>;

PlanningInput read(Overrides overrides, const std::string& devices) {
  overrides.insert(overrides.end(),
                   {"cluster.profile=none", "data.kind=synthetic", "data.path=[]",
                    "data.validation=none", "model.vocab=256", "cluster.devices=" + devices});
  return read_planning_input(HIDUP_INPUTS "/models/bert.yaml",
                             HIDUP_INPUTS "/clusters/v100-1x8.yaml", overrides, std::nullopt);
}

SearchOutcome found_for(const PlanningInput& input, int microbatches = 1) {
  SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  options.level = SearchLevel::fast;
  options.microbatches = {microbatches};
  return search_for(input.deck, input.graph, input.mesh,
                    costs_without_ranks(input.deck, input.mesh), options);
}

// Returns the time of a step over that of the best plan with equal parts.
double over_equal_parts(PlanningInput input) {
  const SearchOutcome unequal = found_for(input);
  for (Axis& axis : input.mesh) {
    axis.paces.clear();
  }
  return unequal.step.seconds() / found_for(input).step.seconds();
}

Overrides ranks(int number) {
  return {"cluster.mesh.gpus.size=" + std::to_string(number), "train.batch=168"};
}

constexpr const char* kOne = "{flops: 15.7TFLOPS, memory_bandwidth: 900GB/s}";
constexpr const char* kHalf = "{flops: 7.85TFLOPS, memory_bandwidth: 450GB/s}";
constexpr const char* kQuarter = "{flops: 3.925TFLOPS, memory_bandwidth: 225GB/s}";

// In proportion to their paces, ranks take 2 / 3 and 3 / 7 of the time of equal parts.
TEST(Shares, FollowThePaces) {
  EXPECT_LE(over_equal_parts(read(ranks(2), fmt::format("[{}, {}]", kOne, kHalf))), 0.70);
  EXPECT_LE(over_equal_parts(read(ranks(3), fmt::format("[{}, {}, {}]", kOne, kHalf, kQuarter))),
            0.46);
}

// Unequal parts rule out messages along both axes at once, which the plan for equal parts needs.
// The plan that the search finds for unequal parts has other rules.
TEST(Shares, AndTheSearchTakeTurns) {
  const PlanningInput input =
      read_planning_input(HIDUP_INPUTS "/models/bert.yaml",
                          HIDUP_INPUTS "/clusters/a100v100-2x8.yaml", {}, std::nullopt);
  const SearchOutcome found = found_for(input);
  double others_s = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : found.candidates) {
    const bool in_turn = std::string_view(candidate.by) == "shares in turn";
    others_s = candidate.feasible && !in_turn ? std::min(others_s, candidate.seconds) : others_s;
  }
  EXPECT_LE(found.step.seconds(), 0.92 * others_s);
  EXPECT_EQ(std::string_view(found.candidates[0].by), "shares in turn");
  ASSERT_EQ(found.step.strategy.mesh[0].shares.size(), 1U);
  const Share& share = found.step.strategy.mesh[0].shares[0];
  EXPECT_GT(share[0], share[1]);
}

// Tokens and experts have equal parts there, which messages along both axes at once need. The head,
// cut by its classes, has unequal ones.
TEST(Shares, OfFeaturesMayDifferFromThoseOfTokens) {
  const PlanningInput input = read_planning_input(HIDUP_INPUTS "/models/bert-switch.yaml",
                                                  HIDUP_INPUTS "/clusters/a100v100-2x8.yaml",
                                                  {"model.layers=2"}, std::nullopt);
  const Strategy strategy = found_for(input, 4).step.strategy;
  const auto uses = [&](const char* rule, bool is_equal) {
    return std::ranges::any_of(strategy.ops, [&](const OpStrategy& op) {
      return op.rules[0].name == rule && op.rules[0].share.is_equal() == is_equal;
    });
  };
  EXPECT_TRUE(uses("batch", true));
  EXPECT_FALSE(uses("batch", false));
  EXPECT_TRUE(uses("vocabulary", false));
}

// A rank that computes at half its pace gets a third of the work; equal parts come back with its
// pace. Storages and rules stay.
TEST(Shares, OfARunningStrategyFollowRanksThatBecomeSlow) {
  const PlanningInput input = read(ranks(2), fmt::format("[{}, {}]", kOne, kOne));
  const Profile profile = costs_without_ranks(input.deck, input.mesh);
  const SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  for (const char* name : {"dp", "fsdp"}) {
    const Strategy equal = choose_strategy(name, input.deck, input.graph, input.mesh, profile);
    const auto reshared = [&](const Strategy& strategy, double slower) {
      return with_new_shares(input.graph, strategy, with_paces(input.mesh, {1.0, 1.0 / slower}),
                             CostModel(profile),
                             RankCosts(CostModel(profile)).slower({1.0, slower}), options);
    };
    const auto seconds = [&](const Strategy& strategy, double slower) {
      return forecast(input.graph, strategy, options.lowering,
                      RankCosts(CostModel(profile)).slower({1.0, slower}))
          .seconds();
    };
    EXPECT_NEAR(seconds(equal, 2.0) / seconds(equal, 1.0), 2.0, 0.1) << name;
    const Strategy unequal = reshared(equal, 2.0);
    EXPECT_LE(seconds(unequal, 2.0), 0.70 * seconds(equal, 2.0)) << name;
    const auto rules = [](const Strategy& strategy) {
      std::vector<std::string> names;
      for (const OpStrategy& op : strategy.ops) {
        names.emplace_back(op.rules[0].name);
      }
      return names;
    };
    EXPECT_EQ(rules(unequal), rules(equal));
    const Strategy back = reshared(unequal, 1.0);
    EXPECT_EQ(print_strategy(input.graph, back), print_strategy(input.graph, equal)) << name;
  }
}

TEST(Shares, DoNotDependOnTheOrderOfDevices) {
  const auto seconds = [](const std::string& devices) {
    return found_for(read(ranks(3), devices)).step.seconds();
  };
  const double expected = seconds(fmt::format("[{}, {}, {}]", kOne, kHalf, kQuarter));
  // Which rank has one element more of a tensor changes.
  EXPECT_NEAR(seconds(fmt::format("[{}, {}, {}]", kHalf, kQuarter, kOne)), expected,
              1e-6 * expected);
}

TEST(Shares, AreEqualWhereDevicesAreAlike) {
  const auto plan = [](const std::string& devices) {
    const PlanningInput input = read(ranks(2), devices);
    return print_strategy(input.graph, found_for(input).step.strategy);
  };
  const std::string alike = plan(fmt::format("[{}, {}]", kOne, kOne));
  EXPECT_EQ(alike, plan("[{count: 2, flops: 15.7TFLOPS, memory_bandwidth: 900GB/s}]"));
  EXPECT_EQ(alike.find("shares"), std::string::npos);
}

TEST(Shares, AreThoseOfTheClassesHoweverTheyAreWritten) {
  const auto plan = [](const std::string& devices) {
    const PlanningInput input = read(ranks(4), devices);
    return print_strategy(input.graph, found_for(input).step.strategy);
  };
  const std::string one = "flops: 15.7TFLOPS, memory_bandwidth: 900GB/s}";
  const std::string half = "flops: 7.85TFLOPS, memory_bandwidth: 450GB/s}";
  const std::string by_count = plan("[{count: 2, " + one + ", {count: 2, " + half + "]");
  EXPECT_NE(by_count.find("shares"), std::string::npos);
  EXPECT_EQ(plan("[{ranks: 2-3, " + half + ", {ranks: 0-1, " + one + "]"), by_count);
  EXPECT_EQ(plan("[{host: a, count: 2, " + one + ", {ranks: '3, 2', " + half + "]"), by_count);
  EXPECT_EQ(plan("[{count: 1, " + one + ", {ranks: 1, " + one + ", {count: 2, " + half + "]"),
            by_count);
}

// Two ranks have too little memory for a fourth of this model under any strategy.
TEST(Shares, FollowTheMemoryWhereOnlyUnequalStateFits) {
  const auto find = [](const std::string& devices, std::string& problem) {
    Overrides overrides = ranks(4);
    overrides.insert(overrides.end(),
                     {"model.layers=4", "train.batch=64", "cluster.device.flops=15.7TFLOPS"});
    const PlanningInput input = read(overrides, devices);
    try {
      return std::optional(found_for(input, 2));
    } catch (const Error& error) {
      problem = error.what();
      return std::optional<SearchOutcome>();
    }
  };
  std::string problem;
  EXPECT_FALSE(find("[{count: 4, memory: 100MiB}]", problem));
  EXPECT_NE(problem.find("no strategy fits in 100.00 MiB"), std::string::npos) << problem;
  for (const auto& [devices, small] : {std::pair("[{count: 2, memory: 2GiB}, {count: 2, memory: "
                                                 "100MiB}]",
                                                 2),
                                       std::pair("[{count: 2, memory: 100MiB}, {count: 2, memory: "
                                                 "2GiB}]",
                                                 0)}) {
    const std::optional<SearchOutcome> found = find(devices, problem);
    ASSERT_TRUE(found) << problem;
    EXPECT_FALSE(found->step.strategy.mesh[0].shares.empty());
    for (int64_t rank = 0; rank < 4; ++rank) {
      const int64_t bytes = plan_memory(found->step.program, rank).bytes;
      EXPECT_LE(bytes, int64_t{rank / 2 == small / 2 ? 100 : 2048} << 20) << rank;
    }
  }
}

// HAP's baselines: equal parts, and parts in proportion to the flops.
TEST(Shares, OfDpCpFollowThePaces) {
  const PlanningInput input = read(ranks(3), fmt::format("[{}, {}, {}]", kOne, kHalf, kQuarter));
  const Strategy by_pace = named_strategy("dp-cp", input.graph, input.mesh);
  ASSERT_EQ(by_pace.mesh[0].shares.size(), 1U);
  EXPECT_EQ(by_pace.mesh[0].shares[0], (Share{4, 2, 1}));
  Strategy equal = named_strategy("dp-ev", input.graph, input.mesh);
  EXPECT_EQ(equal.name, "dp-ev");
  equal.name = "dp";
  const Strategy dp = named_strategy("dp", input.graph, input.mesh);
  EXPECT_EQ(print_strategy(input.graph, equal), print_strategy(input.graph, dp));
  const auto lists = [](const PlanningInput& of, std::string_view name) {
    const std::vector<std::string_view> names = plain_names(of.graph, of.mesh);
    return std::ranges::find(names, name) != names.end();
  };
  EXPECT_TRUE(lists(input, "dp-cp"));
  EXPECT_FALSE(lists(input, "dp-ev")) << "it is dp";
  EXPECT_FALSE(lists(read(ranks(3), "[]"), "dp-cp")) << "it is dp there";
}

// The ranks of an axis have a pace where the devices change along it: not along gpu here.
TEST(Shares, AreOfTheAxisAlongWhichDevicesDiffer) {
  const Overrides two_axes = {
      "cluster.mesh=[{name: node, size: 4, bandwidth: 10Gbps, shared: 2}, {name: gpu, size: 2, "
      "bandwidth: 130GB/s}]",
      "train.batch=1024"};
  const PlanningInput input =
      read(two_axes, "[{count: 2, flops: 15.7TFLOPS}, {count: 6, flops: 9.3TFLOPS}]");
  EXPECT_EQ(input.mesh[0].paces, (std::vector<double>{15.7e12, 9.3e12, 9.3e12, 9.3e12}));
  EXPECT_TRUE(input.mesh[1].paces.empty());
  const SearchOutcome found = found_for(input);
  EXPECT_EQ(found.lower_bound_s, 0.0);  // the problems are of equal ranks
  const Strategy& strategy = found.step.strategy;
  ASSERT_FALSE(strategy.mesh[0].shares.empty());
  const Share& weights = strategy.mesh[0].shares[0];
  EXPECT_GT(weights[0], weights[1]);
  EXPECT_EQ(weights[1], weights[3]);
  EXPECT_LE(over_equal_parts(input), 0.92);  // by the paces 0.855
  const std::string text = print_strategy(input.graph, strategy);
  EXPECT_EQ(print_strategy(input.graph, parse_strategy(input.graph, input.mesh, text, "file")),
            text);
}

}  // namespace
}  // namespace hidup
