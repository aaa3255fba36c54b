// Memory that is too small, or barely suffices.
#include "search/memory_limit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/units.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

bool fits(const Setting& setting) {
  return std::holds_alternative<SearchOutcome>(
      search_strategy(setting.graph(), setting.mesh, setting.costs(), setting.options));
}

TEST(MemoryLimit, TheLeastIsNoMoreThanAnyNamedStrategyNeeds) {
  for (const int64_t experts : {0, 4}) {
    const Setting setting = setting_in_one_group(experts);
    const Graph graph = setting.graph();
    const LeastMemoryStrategy least =
        least_memory_strategy(graph, setting.mesh, setting.costs(), setting.options);
    const auto bytes = [&](const Strategy& strategy) {
      return plan_memory(lower(graph, strategy, setting.options.lowering), 0).bytes;
    };
    EXPECT_EQ(least.bytes, bytes(least.strategy));
    for (const NamedStrategy& named : named_strategies()) {
      if (named.of_stages) {
        continue;
      }
      EXPECT_LE(least.bytes, bytes(named_strategy(named.name, graph, setting.mesh)));
    }
  }
}

// Planning a deep graph as a whole takes minutes for 1,000 layers.
TEST(MemoryLimit, DeepGraphsAreSizedByReducedOnes) {
  Setting setting = setting_in_one_group();
  setting.deck = small_deck(30);
  const Graph graph = setting.graph();
  const LeastMemoryStrategy least =
      least_memory_strategy(graph, setting.mesh, setting.costs(), setting.options);
  ASSERT_FALSE(least.reduced.empty());
  const auto planned = static_cast<double>(
      plan_memory(lower(graph, least.strategy, setting.options.lowering), 0).bytes);
  EXPECT_NEAR(static_cast<double>(least.bytes), planned, 0.005 * planned);

  // Near the limit the whole graph is planned.
  setting.options.memory_limit = least.bytes - 1;
  const LeastMemoryStrategy exact =
      least_memory_strategy(graph, setting.mesh, setting.costs(), setting.options);
  EXPECT_TRUE(exact.reduced.empty());
  EXPECT_EQ(static_cast<double>(exact.bytes), planned);

  setting.options.memory_limit = least.bytes / 2;
  EXPECT_FALSE(fits(setting));
}

TEST(MemoryLimit, WhatJustFitsIsFound) {
  for (const Mesh& mesh : {Mesh{{"ranks", 4}}, Mesh{{"node", 2}, {"core", 2}}}) {
    Setting setting = setting_in_one_group();
    setting.mesh = mesh;
    setting.machine.links.resize(mesh.size(), setting.machine.links[0]);
    setting.options.memory_limit = setting.least_memory_bytes();
    const SearchOutcome outcome = setting.search();
    EXPECT_LE(outcome.candidates[0].memory_bytes, setting.options.memory_limit);
    EXPECT_GE(outcome.gap, 0.0);
  }
}

// 256 of the 512 bytes divide by the number of groups.
TEST(MemoryLimit, AllowsTheFewestGroups) {
  Setting setting = setting_in_one_group();
  const Graph graph = setting.graph();
  const auto fewest = [&](int64_t limit, int microbatches) {
    setting.options.memory_limit = limit;
    return fewest_groups(graph, setting.options, microbatches,
                         [](int groups) { return 256.0 + 256.0 / groups; });
  };
  setting.options.accumulate = {1, 8};
  EXPECT_EQ(fewest(512, 1), 1);
  EXPECT_EQ(fewest(511, 1), 2);
  EXPECT_EQ(fewest(384, 1), 2);
  EXPECT_EQ(fewest(383, 1), 4);
  EXPECT_EQ(fewest(288, 1), 8);
  EXPECT_EQ(fewest(287, 1), std::nullopt);  // a search tries 8 at most
  EXPECT_EQ(fewest(288, 4), 8);
  EXPECT_EQ(fewest(288, 8), std::nullopt);  // of 32 sequences
  setting.options.hints.accumulate = 2;
  EXPECT_EQ(fewest(384, 1), std::nullopt);
}

// The least is over the strategies tried when none fits. The search bounds estimated bytes, so it
// may find a strategy below it.
TEST(MemoryLimit, BelowTheLeastWhatIsFoundFitsOrNothingIs) {
  int refused = 0;
  for (const double part : {0.999, 0.95, 0.9, 0.7, 0.5}) {
    Setting setting = setting_in_one_group();
    const auto least = static_cast<double>(setting.least_memory_bytes());
    setting.options.memory_limit = static_cast<int64_t>(part * least);
    const SearchResult result =
        search_strategy(setting.graph(), setting.mesh, setting.costs(), setting.options);
    if (const auto* found = std::get_if<SearchOutcome>(&result)) {
      EXPECT_LE(found->candidates[0].memory_bytes, setting.options.memory_limit);
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(MemoryLimit, CandidatesThatDoNotFitSayWhatTheyNeed) {
  Setting setting = setting_in_one_group();
  setting.options.memory_limit = 5'200'000;
  const SearchOutcome outcome = setting.search();
  bool feasible = true;  // feasible ones come first
  int others = 0;
  for (const Candidate& candidate : outcome.candidates) {
    EXPECT_TRUE(feasible || !candidate.feasible);
    feasible = candidate.feasible;
    EXPECT_EQ(candidate.feasible, candidate.memory_bytes <= setting.options.memory_limit);
    EXPECT_GT(candidate.seconds, 0.0);
    EXPECT_GT(candidate.busy.compute_s, 0.0);
    EXPECT_EQ(candidate.reason,
              candidate.feasible
                  ? ""
                  : fmt::format("needs {} of {} per rank", format_bytes(candidate.memory_bytes),
                                format_bytes(setting.options.memory_limit)));
    others += candidate.feasible ? 0 : 1;
  }
  EXPECT_GT(others, 0);
  for (const std::string_view name : plain_names(setting.graph(), setting.mesh)) {
    EXPECT_TRUE(std::ranges::any_of(outcome.candidates, [&](const Candidate& candidate) {
      return candidate.strategy.name == name;
    })) << name;
  }
}

}  // namespace
}  // namespace hidup
