// The same on meshes of two axes: how people combine strategies inside machines and across them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "finds.h"
#include "search/problem/build_problem.h"
#include "setting.h"

namespace hidup {
namespace {

constexpr size_t kNode = 0, kGpu = 1;

// Two layers on two machines of four ranks, with links half as fast between them.
Setting two_machines(int64_t experts = 0) {
  Setting setting = small_setting(experts);
  setting.deck.model.hidden = 512;
  setting.deck.model.ffn = 2048;
  setting.deck.model.heads = 8;
  setting.deck.model.sequence = 256;
  setting.deck.train.batch = 2;
  setting.mesh = {{"node", 2}, {"gpu", 4}};
  setting.machine.links = {{.bandwidth = 1e10, .latency_s = 5e-6},
                           {.bandwidth = 2e10, .latency_s = 1e-6}};
  setting.options.microbatches = {1};
  return setting;
}

bool cuts_the_batch(const Strategy& strategy, size_t axis) {
  return std::ranges::all_of(
      strategy.ops, [&](const OpStrategy& op) { return op.rules.at(axis).name == "batch"; });
}

TEST(FindsOnTwoAxes, MegatronInsideMachinesAndDataParallelismAcross) {
  Setting setting = two_machines();
  const Graph graph = setting.graph();
  const Strategy tiny = setting.search().strategy;
  EXPECT_TRUE(cuts_the_batch(tiny, kNode));
  EXPECT_TRUE(is_tensor_parallel(graph, tiny, kGpu));
  setting.deck.train.batch = 64;
  const Strategy large = setting.search().strategy;
  EXPECT_TRUE(cuts_the_batch(large, kNode));
  EXPECT_TRUE(cuts_the_batch(large, kGpu));
}

// Attention by heads on the axis on which the experts are parallel.
TEST(FindsOnTwoAxes, Folding) {
  const auto is_folded = [](const Setting& setting) {
    const Graph graph = setting.graph();
    const Strategy found = setting.search().strategy;
    return all_by(graph, found, OpKind::attention, {"head"}, kGpu) &&
           all_by(graph, found, OpKind::expert_matmul, {"expert"}, kGpu);
  };
  Setting setting = two_machines(4);
  EXPECT_TRUE(is_folded(setting));
  setting.deck.train.batch = 64;
  EXPECT_FALSE(is_folded(setting));
}

// What is beside tensor parallel products: each rank the rows of its part of the sequences, where
// the memory is slow, else all rows.
TEST(FindsOnTwoAxes, SequenceParallelismOfTheRest) {
  Setting setting = two_machines();
  const Graph graph = setting.graph();
  const auto rest_is_by = [&](const Strategy& found, const std::string& rule) {
    return std::ranges::all_of(std::array{OpKind::layer_norm, OpKind::add}, [&](OpKind kind) {
      return all_by(graph, found, kind, {rule}, kGpu);
    });
  };
  const auto feed_forward_is_tensor_parallel = [&](const Strategy& found) {
    return rule_of(graph, found, "layers.1.ffn.up", kGpu) == "column" &&
           rule_of(graph, found, "layers.1.ffn.down", kGpu) == "row";
  };
  setting.machine.memory_bandwidth = 1e10;
  const Strategy slow = setting.search().strategy;
  EXPECT_TRUE(feed_forward_is_tensor_parallel(slow));
  EXPECT_TRUE(rest_is_by(slow, "sequence"));
  setting.machine.memory_bandwidth = 1e12;
  const Strategy fast = setting.search().strategy;
  EXPECT_TRUE(feed_forward_is_tensor_parallel(fast));
  EXPECT_TRUE(rest_is_by(fast, "replicate"));
}

// The search's own plan, which no strategy with a name or with a name per axis gave.
Strategy found_alone(Setting setting) {
  setting.options.baselines = false;
  setting.options.combinations = false;
  return own_of(setting.search()).strategy;
}

// Whether the batch is cut on both axes, and every parameter and its state lie so.
bool is_data_parallel_with(const Strategy& found, bool sharded_inside, bool state_across) {
  return cuts_the_batch(found, kNode) && cuts_the_batch(found, kGpu) &&
         std::ranges::all_of(found.parameters, [&](const ParameterStrategy& parameter) {
           return parameter.storage[kNode].is_replicate() &&
                  parameter.storage[kGpu].is_shard() == sharded_inside &&
                  parameter.optimizer_state[kNode].is_shard() == state_across &&
                  parameter.optimizer_state[kGpu].is_shard();
         });
}

// Parameters on all ranks, and the optimizer's state in parts inside a machine only.
TEST(FindsOnTwoAxes, StateShardedInsideMachinesOnly) {
  Setting setting = two_machines();
  setting.deck.train.batch = 64;
  setting.machine.links[kGpu].bandwidth = 1e11;
  EXPECT_TRUE(is_data_parallel_with(found_alone(setting), false, false));
  setting.machine.links[kGpu].bandwidth = 2e10;
  EXPECT_FALSE(is_data_parallel_with(found_alone(setting), false, false));
}

// Parameters and state in parts inside a machine only, where memory is short.
TEST(FindsOnTwoAxes, HybridSharding) {
  for (double node : {1e9, 1e10}) for (double mb : {50., 60., 65., 70., 75., 80., 90., 200.}) {
  Setting setting = two_machines();
  setting.deck.train.batch = 8;
  setting.options.accumulate = {1};
  setting.machine.links[kNode].bandwidth = node;
  setting.machine.links[kGpu].bandwidth = 1e12;
  setting.options.memory_limit = int64_t(mb * 1e6);
    Strategy s;
    setting.options.baselines = false;
    setting.options.combinations = false;
    Candidate cand;
    try { cand = own_of(setting.search()); s = cand.strategy; } catch (const std::exception& e) { printf("%g: %s\n", mb, e.what()); continue; }
    std::map<std::string, int> m;
    for (auto& p : s.parameters) m[to_string(p.storage) + ", " + to_string(p.optimizer_state) + (p.kept == Kept::pass ? " pass" : "")]++;
    std::string t = cuts_the_batch(s, kNode) && cuts_the_batch(s, kGpu) ? "dp " : "other ";
    for (auto& [k, v] : m) t += std::to_string(v) + " x " + k + "; ";
    printf("node %g mb %g: %g ms %g MB: %s\n", node, mb, cand.seconds*1e3, cand.memory_bytes/1e6, t.c_str());
    fflush(stdout);
  }
}

}  // namespace
}  // namespace hidup
