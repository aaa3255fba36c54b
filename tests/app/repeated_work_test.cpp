// Work that ranks repeat: its size, its axis, and the number of ranks that would suffice.
#include "app/repeated_work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

// Returns two nodes of two ranks, with a link of `bandwidth` between the nodes.
Setting two_nodes(double bandwidth) {
  Setting setting = small_setting();
  setting.mesh = {{"node", 2}, {"core", 2}};
  setting.machine.links = {{.bandwidth = bandwidth, .latency_s = 5e-6}, setting.machine.links[0]};
  return setting;
}

RepeatedWork repeated(const Setting& setting, const Strategy& strategy, int64_t memory_limit = 0) {
  return repeated_work(setting.graph(), strategy, setting.costs(), setting.options.lowering,
                       memory_limit);
}

// Makes every rank of an axis compute the operations of a kind whole.
void replicate(const Graph& graph, Strategy& strategy, size_t axis, OpKind kind) {
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    if (graph.op(op).kind == kind) {
      strategy.ops[static_cast<size_t>(op)].rules[axis] = find_rule(graph, op, "replicate");
    }
  }
}

TEST(RepeatedWork, NamedStrategiesRepeatLittle) {
  const Setting setting = two_nodes(1e10);
  for (const char* name : {"dp", "fsdp", "megatron", "megatron-sp"}) {
    const RepeatedWork work =
        repeated(setting, named_strategy(name, setting.graph(), setting.mesh));
    EXPECT_TRUE(work.axes.empty()) << name;
    EXPECT_EQ(work.useful_ranks, 4) << name;
    EXPECT_EQ(describe(work, setting.mesh, true), "") << name;
  }
}

TEST(RepeatedWork, ASlowLinkMakesNodesRepeatEachOther) {
  const Setting setting = two_nodes(1e5);
  const Graph graph = setting.graph();
  const SearchOutcome found = setting.search();
  const RepeatedWork work = repeated(setting, found.step.strategy);
  ASSERT_EQ(work.axes.size(), 1U);
  EXPECT_EQ(work.axes[0].axis, 0U);
  EXPECT_EQ(work.operations, static_cast<int64_t>(graph.ops().size()));
  EXPECT_GT(work.axes[0].flops_part, 0.9);
  EXPECT_DOUBLE_EQ(work.step_s, found.step.seconds());
  EXPECT_EQ(work.useful_ranks, 2);

  // A search for one node starts afresh, and may find a slightly faster plan.
  Setting one_node = setting;
  one_node.mesh[0].size = 1;
  const double alone_s = one_node.search().step.seconds();
  EXPECT_GE(work.axes[0].step_s, 0.999 * alone_s);
  EXPECT_LE(work.axes[0].step_s, 1.05 * alone_s);
  const std::string line = describe(work, setting.mesh, true);
  for (const char* part :
       {"the 2 ranks along node repeat each other's work (", " % of the flops): ",
        "messages along node would cost more than sharing saves; ", "; 2 rank(s) would take ",
        " per step, these 4 take ", ": rank 2 along node adds nothing"}) {
    EXPECT_NE(line.find(part), std::string::npos) << line;
  }
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(describe(work, setting.mesh, false).find("messages"), std::string::npos);
}

TEST(RepeatedWork, CountsOperationsAndTheirFlops) {
  const Setting setting = two_nodes(1e10);
  const Graph graph = setting.graph();
  Strategy strategy = named_strategy("dp", graph, setting.mesh);
  replicate(graph, strategy, 1, OpKind::layer_norm);  // much of the operations, little of the flops
  EXPECT_TRUE(repeated(setting, strategy).axes.empty());
  replicate(graph, strategy, 1, OpKind::matmul);
  const RepeatedWork work = repeated(setting, strategy);
  ASSERT_EQ(work.axes.size(), 1U);
  EXPECT_EQ(work.axes[0].axis, 1U);
  EXPECT_EQ(work.axes[0].operations, std::ranges::count_if(graph.ops(), [](const Op& op) {
              return op.kind == OpKind::layer_norm || op.kind == OpKind::matmul;
            }));
  EXPECT_GT(work.axes[0].flops_part, 0.5);
  EXPECT_LT(work.axes[0].flops_part, 1.0);
}

// One rank of the axis computes each operation while the other waits, so no work is repeated.
TEST(RepeatedWork, WorkOfOneRankOfAnAxisIsNotRepeated) {
  const Setting setting = two_nodes(1e5);
  const Graph graph = setting.graph();
  Strategy strategy = named_strategy("dp", graph, setting.mesh);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].rules[0] =
        with_share(replicate_rule(graph, op), setting.mesh[0], ShareNumber::only(op % 2));
  }
  const RepeatedWork work = repeated(setting, strategy);
  EXPECT_TRUE(work.axes.empty());
  EXPECT_EQ(work.useful_ranks, 4);
  EXPECT_EQ(describe(work, setting.mesh, true), "");
}

// The second node computes ten times as fast: it is faster alone than with the other.
TEST(RepeatedWork, TheFasterDevicesAloneAreNamed) {
  const Setting setting = two_nodes(1e5);
  Setting fast = setting;
  fast.machine.flops *= 10;
  fast.machine.memory_bandwidth *= 10;
  const Graph graph = setting.graph();
  const Strategy strategy = setting.search().step.strategy;
  const RankCosts costs({setting.costs(), fast.costs()}, {0, 0, 1, 1}, {"8 GFLOPS", "80 GFLOPS"});
  const RepeatedWork work = repeated_work(graph, strategy, costs, setting.options.lowering, 0);
  ASSERT_EQ(work.axes.size(), 1U);
  EXPECT_EQ(work.axes[0].devices, "80 GFLOPS");
  EXPECT_LT(work.axes[0].step_s, work.step_s);
  const RepeatedWork all_fast =
      repeated_work(graph, strategy, fast.costs(), setting.options.lowering, 0);
  ASSERT_EQ(all_fast.axes.size(), 1U);
  EXPECT_DOUBLE_EQ(work.axes[0].step_s, all_fast.axes[0].step_s);
  EXPECT_EQ(work.useful_ranks, 2);
  const std::string line = describe(work, setting.mesh, true);
  EXPECT_NE(line.find("; 2 rank(s) of 80 GFLOPS would take "), std::string::npos) << line;
  EXPECT_NE(line.find(": the others add nothing"), std::string::npos) << line;
}

// Repeated work counts more on many ranks, which could share it further.
TEST(RepeatedWork, CountsMoreForMoreRanks) {
  for (const int64_t ranks : {2, 16}) {
    Setting setting = small_setting();
    setting.mesh = {{"ranks", ranks}};
    const Graph graph = setting.graph();
    Strategy strategy = named_strategy("dp", graph, setting.mesh);
    replicate(graph, strategy, 0, OpKind::attention);  // 2.5 % of the flops
    EXPECT_EQ(repeated(setting, strategy).axes.size(), ranks == 16 ? 1U : 0U);
  }
}

TEST(RepeatedWork, RanksThatHaveNoMemoryForItAreNotEnough) {
  const Setting setting = two_nodes(1e10);
  const Graph graph = setting.graph();
  Strategy strategy = named_strategy("fsdp", graph, setting.mesh);
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].rules[0] = find_rule(graph, op, "replicate");
  }
  const RepeatedWork free = repeated(setting, strategy);
  ASSERT_EQ(free.axes.size(), 1U);
  EXPECT_TRUE(free.axes[0].fits);
  EXPECT_EQ(free.useful_ranks, 2);
  EXPECT_DOUBLE_EQ(free.axes[0].flops_part, 1.0);
  const RepeatedWork tight = repeated(setting, strategy, free.axes[0].bytes - 1);
  ASSERT_EQ(tight.axes.size(), 1U);
  EXPECT_FALSE(tight.axes[0].fits);
  EXPECT_EQ(tight.useful_ranks, 4);
  EXPECT_NE(describe(tight, setting.mesh, true).find(", but would need "), std::string::npos);
  EXPECT_EQ(describe(tight, setting.mesh, true).find("add"), std::string::npos);
}

// All ranks compute the whole attention, but share the rest.
TEST(RepeatedWork, RanksThatShareSomethingAddSomething) {
  Setting setting = small_setting();
  setting.mesh = {{"ranks", 16}};
  const Graph graph = setting.graph();
  Strategy strategy = named_strategy("dp", graph, setting.mesh);
  replicate(graph, strategy, 0, OpKind::attention);
  const std::string some = describe(repeated(setting, strategy), setting.mesh, false);
  EXPECT_NE(some.find("1 rank(s) would take "), std::string::npos) << some;
  EXPECT_EQ(some.find("add nothing"), std::string::npos) << some;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].rules[0] = find_rule(graph, op, "replicate");
  }
  const std::string none = describe(repeated(setting, strategy), setting.mesh, false);
  EXPECT_NE(none.find(": ranks 2 to 16 along ranks add nothing"), std::string::npos) << none;
}

// Ranks repeat work along both axes: a step takes as long with one rank along each.
TEST(RepeatedWork, AxesAddUp) {
  Setting setting = two_nodes(1e5);
  setting.machine.links[1] = setting.machine.links[0];
  const RepeatedWork work = repeated(setting, setting.search().step.strategy);
  EXPECT_EQ(work.axes.size(), 2U);
  EXPECT_EQ(work.useful_ranks, 1);
}

}  // namespace
}  // namespace hidup
