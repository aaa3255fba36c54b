// The search under loads of experts that are not even.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/work.h"
#include "search/axes/by_axes.h"
#include "search/dp/dynamic.h"
#include "search/estimate/estimate.h"
#include "search/named/named_strategies.h"
#include "search/problem/op_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

using Loads = std::vector<double>;

// Four experts without capacity in the second of two layers, on links so slow and weights so large
// that experts pay where loads are even.
Setting setting_of(const Mesh& mesh = {{"ranks", 4}}) {
  Setting setting = quick_setting(4);
  setting.mesh = mesh;
  setting.deck.model->dropout = 0.0;
  setting.deck.model->moe.capacity_factor = std::nullopt;
  setting.deck.model->ffn = 1024;
  setting.machine.links.assign(mesh.size(), {.bandwidth = 1e9, .latency_s = 5e-6});
  return setting;
}

Graph graph_with(const Setting& setting, const Loads& loads) {
  return with_loads(setting.graph(), {std::make_shared<const Loads>(loads)});
}

const Loads kEven = {1.0, 1.0, 1.0, 1.0};
const Loads kHot = {0.2, 0.2, 0.2, 3.4};  // the last rank's expert

// Adds up the seconds of the pass's computation, each instruction on its slowest rank.
double computed_s(const Program& program, const CostModel& costs, Phase phase) {
  double seconds = 0.0;
  for (const Instruction& instruction : program.instructions) {
    double slowest = 0.0;
    for (int64_t rank = 0; rank < ranks_of(program.mesh); ++rank) {
      slowest = std::max(slowest,
                         costs.operation(instruction.opcode, work_of(program, instruction, rank)));
    }
    seconds +=
        instruction.phase == phase && instruction.stream == StreamKind::compute ? slowest : 0.0;
  }
  return seconds;
}

class NamedUnderLoads : public testing::TestWithParam<const char*> {};

// The tolerances are those of NamedStrategies.CostWhatTheirProgramsDo.
TEST_P(NamedUnderLoads, CostWhatTheirProgramsDo) {
  const Setting setting = setting_of();
  const Graph graph = graph_with(setting, kHot);
  const CostModel costs = setting.costs();
  const BuiltProblem built =
      build_problem(graph, setting.mesh, costs, {.bucket_bytes = kSmallBucket});
  LoweringOptions lowering = simple_lowering();
  lowering.fuse = false;
  const Strategy strategy = named_strategy(GetParam(), graph, setting.mesh);
  const Program program = lower(graph, strategy, lowering);
  const auto choices = choices_of(graph, built.problem, built, strategy);
  ASSERT_TRUE(choices.has_value());
  double forward = 0.0;
  double backward = 0.0;
  for (size_t op = 0; op < choices->size(); ++op) {
    const Choice& choice =
        built.problem.choices_of(op).choices[static_cast<size_t>((*choices)[op])];
    forward += choice.forward_compute_s;
    backward += choice.backward_compute_s;
  }
  EXPECT_NEAR(forward, computed_s(program, costs, Phase::forward), 0.05 * forward);
  EXPECT_NEAR(backward, computed_s(program, costs, Phase::backward), 0.1 * backward);
  const double simulated = simulate(program, costs).iteration_s;
  EXPECT_NEAR(evaluate(built.problem, *choices).seconds, simulated, 0.08 * simulated);
}

INSTANTIATE_TEST_SUITE_P(All, NamedUnderLoads, testing::Values("dp", "ep-fastmoe", "ep-deepspeed"));

bool cuts_experts(const Graph& graph, const Strategy& strategy) {
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    if (graph.op(op).kind == OpKind::expert_matmul) {
      return std::ranges::any_of(output_layout(strategy.ops[static_cast<size_t>(op)]),
                                 [](const Placement& at) { return at.is_shard() && at.dim == 0; });
    }
  }
  return false;
}

// Solves the search's problem alone, without simulations.
FoundPlan solved(const BuiltProblem& built) {
  return solve(built.problem, {}).plans.at(0);
}

TEST(ExpertLoads, DecideWhetherTheDynamicProgrammingCutsExperts) {
  const Setting setting = setting_of();
  const CostModel costs = setting.costs();
  const auto strategy_for = [&](const Graph& graph) {
    const BuiltProblem built = build_problem(graph, setting.mesh, costs, {});
    return to_strategy(graph, setting.mesh, built, solved(built).plan);
  };
  const Graph even = graph_with(setting, kEven);
  const Graph hot = graph_with(setting, kHot);
  const Strategy of_even = strategy_for(even);
  const Strategy of_hot = strategy_for(hot);
  EXPECT_TRUE(cuts_experts(even, of_even));
  EXPECT_FALSE(cuts_experts(hot, of_hot));
  const auto simulated_s = [&](const Strategy& strategy) {
    return simulate(lower(hot, strategy, simple_lowering()), costs).iteration_s;
  };
  EXPECT_LT(simulated_s(of_hot), simulated_s(of_even));
}

TEST(ExpertLoads, TheSearchIsAtMostAsSlowAsEitherStrategy) {
  const Setting setting = setting_of();
  const CostModel costs = setting.costs();
  const Graph hot = graph_with(setting, kHot);
  const SearchOutcome outcome = searched(hot, setting.mesh, costs, setting.options);
  EXPECT_FALSE(cuts_experts(hot, outcome.step.strategy));
  EXPECT_LE(outcome.lower_bound_s, outcome.objective_s);
  const SearchOutcome of_even =
      searched(graph_with(setting, kEven), setting.mesh, costs, setting.options);
  EXPECT_TRUE(cuts_experts(hot, of_even.step.strategy));
  for (const Strategy& strategy :
       {of_even.step.strategy, named_strategy("ep-fastmoe", hot, setting.mesh),
        named_strategy("dp", hot, setting.mesh)}) {
    const Program program = lower(hot, strategy, setting.options.lowering);
    EXPECT_LE(outcome.step.seconds(), simulate(program, costs).iteration_s * (1 + 1e-9));
  }
}

// The same loads on other ranks cost the same.
TEST(ExpertLoads, AnyRankMayHaveTheHotExpert) {
  const Setting setting = setting_of();
  const CostModel costs = setting.costs();
  const auto seconds = [&](Loads loads) {
    const Graph graph = graph_with(setting, loads);
    const Strategy strategy = named_strategy("ep-fastmoe", graph, setting.mesh);
    return simulate(lower(graph, strategy, simple_lowering()), costs).iteration_s;
  };
  const double first = seconds({3.4, 0.2, 0.2, 0.2});
  EXPECT_GT(first, 1.1 * seconds(kEven));
  for (size_t rank = 1; rank < 4; ++rank) {
    Loads loads(4, 0.2);
    loads[rank] = 3.4;
    EXPECT_NEAR(seconds(loads), first, 1e-9 * first) << rank;
  }
}

// Blocks of equal loads stand for each other, and keep these loads; others do not.
TEST(ExpertLoads, MakeBlocksAlikeWhereTheyAreEqual) {
  Setting setting = setting_of();
  setting.deck.model->layers = 40;
  const CostModel costs = setting.costs();
  const Graph hot = graph_with(setting, kHot);
  const std::vector<ReducedGraph> reduced = reduced_graphs_of(hot, signatures_of(hot));
  ASSERT_FALSE(reduced.empty());
  const Strategy strategy = named_strategy("ep-fastmoe", hot, setting.mesh);
  StrategyParts parts = parts_of(hot, reduced, strategy);
  const double whole = simulate(lower(hot, strategy, simple_lowering()), costs).iteration_s;
  EXPECT_NEAR(
      simulated(parts, ReshardCosts(setting.mesh, costs), costs, simple_lowering()).iteration_s,
      whole, 0.005 * whole);

  std::vector<ExpectedLoads> layers;
  for (int layer = 0; layer < 20; ++layer) {
    const double first = 0.05 * layer;
    layers.push_back(std::make_shared<const Loads>(Loads{first, 1.0, 1.0, 2.0 - first}));
  }
  const Graph unlike = with_loads(setting.graph(), layers);
  EXPECT_TRUE(reduced_graphs_of(unlike, signatures_of(unlike)).empty());
}

// On several axes the lower bound compares divisions of the computation.
TEST(ExpertLoads, KeepTheBoundBelowThePlans) {
  const Setting setting = setting_of({{"node", 2}, {"gpu", 2}});
  const CostModel costs = setting.costs();
  const Graph hot = graph_with(setting, kHot);
  const AxesResult result = search_by_axes(hot, setting.mesh, costs, {}, {});
  const BuiltProblem built = build_problem(hot, setting.mesh, costs, {});
  for (const char* name : {"dp", "ep-fastmoe"}) {
    const Strategy strategy = named_strategy(name, hot, setting.mesh);
    const auto choices = choices_of(hot, built.problem, built, strategy);
    ASSERT_TRUE(choices.has_value());
    EXPECT_LE(result.lower_bound, evaluate(built.problem, *choices).seconds) << name;
  }
  for (const FoundStrategy& found : result.found) {
    EXPECT_LE(result.lower_bound, found.objective_s);
  }
}

// An axis of four ranks cuts six experts into 2, 2, 1 and 1, two of two ranks into 2, 1, 2 and 1: a
// division has other loads on other axes, so no bound holds for it.
TEST(ExpertLoads, LeaveOutDivisionsIntoUnequalNumbers) {
  const Mesh mesh = {{"a", 2}, {"b", 2}, {"c", 4}};
  Setting setting = setting_of(mesh);
  const auto divisions = [&](const Graph& graph) {
    const auto is_product = [](const Op& op) { return op.kind == OpKind::expert_matmul; };
    const auto product = std::ranges::find_if(graph.ops(), is_product);
    return divisions_of(graph, graph.tensor(product->output).producer, mesh, nullptr, 4096).size();
  };
  EXPECT_GT(divisions(graph_with(setting, kHot)), 0U);
  setting.deck.model->moe.experts = 6;
  EXPECT_GT(divisions(setting.graph()), 0U);
  EXPECT_EQ(divisions(graph_with(setting, {0.5, 0.5, 2.0, 2.0, 0.5, 0.5})), 0U);
}

}  // namespace
}  // namespace hidup
