// Gathered factors of a gradient (Rule::factors_of) against its all-reduce.
#include "search/problem/factors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cost/roofline.h"
#include "finds.h"
#include "graph/text.h"
#include "random_graph.h"
#include "search/dp/dynamic.h"
#include "simple_costs.h"

namespace hidup {
namespace {

constexpr DynamicOptions kWholeSearch{.width = 0, .states = 0};

// Returns a product of 4 x `tokens` rows by a weight of 256 x 256 after an embedding.
Graph product_of(int64_t tokens) {
  return parse_graph(fmt::format("graph one\n"
                                 "input tokens : i32[4, {0}]\ninput targets : i32[4, {0}]\n"
                                 "parameter table : f32[16, 256] = uniform(0.1)\n"
                                 "parameter w : f32[256, 256] = uniform(0.1)\n"
                                 "x = embedding(tokens, table)\ny = matmul(x, w)\n"
                                 "loss = cross_entropy(y, targets)\n",
                                 tokens),
                     "one");
}

OpId product_in(const Graph& graph) {
  return graph.tensor(graph.find("y")).producer;
}

Hints hints_of_rules(const Graph& graph, const Mesh& mesh) {
  Hints hints{.mesh = mesh, .defer_gradients = false};
  hints.resize_ops(graph.ops().size(), mesh.size());
  return hints;
}

Hints batch_but_for_products(const Graph& graph, const Mesh& mesh) {
  Hints hints = hints_of_rules(graph, mesh);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    if (graph.op(op).kind != OpKind::matmul) {
      hints.ops[static_cast<size_t>(op)].rules[0] = find_rule(graph, op, "batch");
    }
  }
  return hints;
}

// 4 ranks send 3/4 of a message's bytes at 1 GB/s, twice for a sum, and compute 1 TFLOP/s. With N
// rows of 256 floats on either side
//   the all-reduce takes 2 x 65,536 x 4 x 3/4 / 1e9 = 393.2 us,
//   the gathers take N x 512 x 4 x 3/4 / 1e9 = 1.536 us x N, as long for N = 256,
//   and 2 N x 65,536 x 3/4 more flops take 0.0983 us x N: the two are equal for N = 240.6.
constexpr double kSum_s = 393.2e-6;
constexpr double kGathers_s = 1.536e-6;
constexpr double kFlops_s = 0.0983e-6;

class BreakEven : public testing::Test {
 protected:
  const Mesh mesh_ = {{"ranks", 4}};
  const CostModel costs_{roofline_profile(
      mesh_, {.flops = 1e12, .memory_bandwidth = 1e16, .links = {{.bandwidth = 1e9}}})};

  BuiltProblem build(const Graph& graph, const Hints& hints) const {
    return build_problem(graph, mesh_, costs_,
                         {.storages = StorageChoices::as_used, .hints = &hints});
  }
  // Returns the problem in which only products are free.
  BuiltProblem built(const Graph& graph) const {
    return build(graph, batch_but_for_products(graph, mesh_));
  }
  std::string found_rule(int64_t tokens) const {
    const Graph graph = product_of(tokens);
    const BuiltProblem problem = built(graph);
    const Plan plan = solve(problem.problem, kWholeSearch).plans.at(0).plan;
    return rule_of(graph, to_strategy(graph, mesh_, problem, plan), "y");
  }
  bool offers_factors(int64_t tokens) const {
    const Graph graph = product_of(tokens);
    const BuiltProblem problem = built(graph);
    const int kind = problem.problem.ops[static_cast<size_t>(product_in(graph))].kind;
    return std::ranges::any_of(problem.meanings[static_cast<size_t>(kind)],
                               [](const ChoiceMeaning& meaning) {
                                 return meaning.op_strategy.rules[0].name == "factors";
                               });
  }
};

TEST_F(BreakEven, CostsAreThoseByHand) {
  for (const int64_t tokens : {10, 100}) {
    const Graph graph = product_of(tokens);
    const RuleCosts costs(graph, mesh_, costs_, 1, 1 << 20);
    const OpId op = product_in(graph);
    const ParameterLayouts stored{
        graph.find("w"), {Placement::replicate()}, {Placement::replicate()}};
    const OpStrategy batch{.rules = {find_rule(graph, op, "batch")}};
    const OpStrategy factors{.rules = {find_rule(graph, op, "factors")}};
    const double rows = 4.0 * static_cast<double>(tokens);
    const Choice by_batch = costs.operation(op, batch);
    const Choice by_factors = costs.operation(op, factors);
    const auto near = [](double found, double expected) {
      EXPECT_NEAR(found, expected, 0.005 * expected);
    };
    EXPECT_EQ(by_batch.backward_comm_s, 0.0);
    near(by_factors.backward_comm_s, kGathers_s * rows);
    near(by_factors.backward_compute_s - by_batch.backward_compute_s, kFlops_s * rows);
    EXPECT_EQ(by_factors.forward_compute_s, by_batch.forward_compute_s);
    near(costs.sync(batch, 1, stored).comm_s, kSum_s);
    EXPECT_EQ(costs.sync(factors, 1, stored).comm_s, 0.0);
  }
}

TEST_F(BreakEven, TheSearchGathersFactorsExactlyWhereTheyCostLess) {
  EXPECT_EQ(found_rule(4), "factors");   // N = 16
  EXPECT_EQ(found_rule(58), "factors");  // N = 232
  EXPECT_EQ(found_rule(62), "batch");  // N = 248: the messages are shorter, but not with the flops
  EXPECT_TRUE(offers_factors(62));
  EXPECT_FALSE(offers_factors(66));  // N = 264: the messages are longer
  EXPECT_EQ(found_rule(66), "batch");
}

// Hints keep the rule where it is not offered otherwise.
TEST_F(BreakEven, HintsMayAskForFactorsAnywhere) {
  const Graph graph = product_of(66);
  Hints hints = hints_of_rules(graph, mesh_);
  hints.ops[static_cast<size_t>(product_in(graph))].rules[0] =
      find_rule(graph, product_in(graph), "factors");
  const BuiltProblem problem = build(graph, hints);
  const Plan plan = solve(problem.problem, kWholeSearch).plans.at(0).plan;
  EXPECT_EQ(rule_of(graph, to_strategy(graph, mesh_, problem, plan), "y"), "factors");
}

// The choices that problems leave out would make no plan faster: no plan that a hint forces to
// gather the factors of a product beats the best one without the hint.
TEST(Factors, NoneIsLeftOutThatPays) {
  int left_out = 0;
  int best = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    std::mt19937_64 random(seed);
    const RandomSetting setting = random_setting(random, 1);
    const auto built = [&](const Hints& hints) {
      BuiltProblem problem = build_problem(
          setting.graph, setting.mesh, setting.costs,
          {.microbatches = 1 << (seed % 3), .bucket_bytes = kSmallBucket, .hints = &hints});
      problem.problem.interference = seed % 2 == 0 ? 0.0 : 0.4;
      return problem;
    };
    const auto seconds = [](const BuiltProblem& problem) {
      return solve(problem.problem, kWholeSearch).plans.at(0).cost.seconds;
    };
    // Among operations by other rules, factors rarely pay.
    const Hints others = seed % 4 == 0 ? hints_of_rules(setting.graph, setting.mesh)
                                       : batch_but_for_products(setting.graph, setting.mesh);
    const BuiltProblem free = built(others);
    const double least = seconds(free);
    for (size_t op = 0; op < setting.graph.ops().size(); ++op) {
      if (setting.graph.ops()[op].kind != OpKind::matmul) {
        continue;
      }
      Hints hints = others;
      hints.ops[op].rules[0] = find_rule(setting.graph, static_cast<OpId>(op), "factors");
      const double hinted = seconds(built(hints));
      EXPECT_GE(hinted, least * (1.0 - 1e-9)) << seed;
      best += hinted <= least * (1.0 + 1e-9) ? 1 : 0;
      const auto kind = static_cast<size_t>(free.problem.ops[op].kind);
      left_out += std::ranges::none_of(free.meanings[kind],
                                       [](const ChoiceMeaning& meaning) {
                                         return meaning.op_strategy.rules[0].factors_of >= 0;
                                       })
                      ? 1
                      : 0;
    }
  }
  EXPECT_GT(left_out, 50);
  EXPECT_GT(best, 5);
}

}  // namespace
}  // namespace hidup
