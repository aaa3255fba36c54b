#include "sharding/with_shares.h"

#include <gtest/gtest.h>

#include "search/named/named_strategies.h"
#include "small_strategy.h"

namespace hidup {
namespace {

std::string rule_of(const Strategy& strategy, size_t op) {
  return to_string(strategy.ops[op].rules[0]);
}
std::string storage_of(const Strategy& strategy, size_t parameter) {
  return to_string(strategy.parameters[parameter].storage);
}
std::string state_of(const Strategy& strategy, size_t parameter) {
  return to_string(strategy.parameters[parameter].optimizer_state);
}

// The embedding cuts the batch, the product and the loss cut the classes.
Strategy both(const Graph& graph) {
  Strategy strategy = named_strategy("dp", graph, kMesh);
  for (const auto& [op, name] : {std::pair(1, "column"), std::pair(2, "vocabulary")}) {
    for (const Rule& rule : rules_of(graph, op)) {
      if (rule.name == name) {
        strategy.ops[static_cast<size_t>(op)].rules = {rule};
      }
    }
  }
  const Layout as_used = {Placement::shard(1)};
  strategy.parameters[1].storage = strategy.parameters[1].optimizer_state = as_used;
  strategy.parameters[0].optimizer_state = {Placement::shard(0)};
  return strategy;
}

TEST(WithShares, TokensFeaturesAndStateHaveTheirOwn) {
  const Graph graph = small_graph();
  const Strategy strategy = with_shares(graph, both(graph), 0, {{2, 1}, {3, 1}, {4, 1}});
  EXPECT_EQ(strategy.mesh[0].shares, (std::vector<Share>{{2, 1}, {3, 1}, {4, 1}}));
  EXPECT_EQ(rule_of(strategy, 0), "batch%1");
  EXPECT_EQ(rule_of(strategy, 1), "column%2");
  EXPECT_EQ(rule_of(strategy, 2), "vocabulary%2");
  EXPECT_EQ(storage_of(strategy, 0), "R");
  EXPECT_EQ(state_of(strategy, 0), "S(0)%3");
  EXPECT_EQ(storage_of(strategy, 1), "S(1)%2") << "as the product uses it";
  EXPECT_EQ(state_of(strategy, 1), "S(1)%2");
  const Strategy back = with_equal_parts(strategy);
  EXPECT_EQ(print_strategy(graph, back), print_strategy(graph, both(graph)));
}

TEST(WithShares, EqualWeightsAreEqualParts) {
  const Graph graph = small_graph();
  const Strategy strategy = with_shares(graph, both(graph), 0, {{7, 7}, {3, 1}, {1, 1}});
  EXPECT_EQ(strategy.mesh[0].shares, (std::vector<Share>{{3, 1}}));
  EXPECT_EQ(rule_of(strategy, 0), "batch");
  EXPECT_EQ(rule_of(strategy, 1), "column%1");
  EXPECT_EQ(state_of(strategy, 0), "S(0)");
}

// Tokens of all ranks go to the experts of all ranks: both have the same shares.
TEST(WithShares, ExpertsFollowTheTokens) {
  for (const char* name : {"batch", "sequence", "expert", "factors"}) {
    EXPECT_FALSE(cuts_features({.name = name})) << name;
  }
  for (const char* name : {"column", "row", "row(1)", "head", "kv_head", "vocabulary"}) {
    EXPECT_TRUE(cuts_features({.name = name})) << name;
  }
}

}  // namespace
}  // namespace hidup
