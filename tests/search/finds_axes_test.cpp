// Combinations of strategies inside and across machines, which the search finds on two axes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "finds.h"
#include "setting.h"

namespace hidup {
namespace {

constexpr size_t kNode = 0, kGpu = 1;

// Returns two layers on two machines of four ranks, with links between them at half the speed.
Setting two_machines(int64_t experts = 0) {
  Setting setting = small_setting(experts);
  setting.deck.model->hidden = 512;
  setting.deck.model->ffn = 2048;
  setting.deck.model->heads = 8;
  setting.deck.model->sequence = 256;
  setting.deck.train->batch = 2;
  setting.mesh = {{"node", 2}, {"gpu", 4}};
  setting.machine.links = {{.bandwidth = 1e10, .latency_s = 5e-6},
                           {.bandwidth = 2e10, .latency_s = 1e-6}};
  setting.options.microbatches = {1};
  return setting;
}

bool cuts_the_batch(const Strategy& strategy, size_t axis, OpId from = 0) {
  return std::ranges::all_of(
      strategy.ops.begin() + from, strategy.ops.end(),
      [&](const OpStrategy& op) { return op.rules.at(axis).name == "batch"; });
}

// The operations before the first attention differ: the embedding is cut in another way.
TEST(FindsOnTwoAxes, MegatronInsideMachinesAndDataParallelismAcross) {
  Setting setting = two_machines();
  const Graph graph = setting.graph();
  const Strategy tiny = setting.search().step.strategy;
  const OpId attention = graph.tensor(graph.find("layers.0.attention")).producer;
  EXPECT_TRUE(cuts_the_batch(tiny, kNode, attention));
  EXPECT_TRUE(is_tensor_parallel(graph, tiny, kGpu));
  setting.deck.train->batch = 64;
  const Strategy large = setting.search().step.strategy;
  EXPECT_TRUE(cuts_the_batch(large, kNode));
  EXPECT_TRUE(cuts_the_batch(large, kGpu));
}

// Attention is by heads on the axis on which the experts are parallel.
TEST(FindsOnTwoAxes, Folding) {
  const auto is_folded = [](const Setting& setting) {
    const Graph graph = setting.graph();
    const Strategy found = setting.search().step.strategy;
    return all_by(graph, found, OpKind::attention, {"head"}, kGpu) &&
           all_by(graph, found, OpKind::expert_matmul, {"expert"}, kGpu);
  };
  Setting setting = two_machines(4);
  EXPECT_TRUE(is_folded(setting));
  setting.deck.train->batch = 64;
  EXPECT_FALSE(is_folded(setting));
}

// Where the memory is slow, each rank computes the rows of its part of the sequences between tensor
// parallel products; else it computes all rows.
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
  const Strategy slow = setting.search().step.strategy;
  EXPECT_TRUE(feed_forward_is_tensor_parallel(slow));
  EXPECT_TRUE(rest_is_by(slow, "sequence"));
  setting.machine.memory_bandwidth = 1e12;
  const Strategy fast = setting.search().step.strategy;
  EXPECT_TRUE(feed_forward_is_tensor_parallel(fast));
  EXPECT_TRUE(rest_is_by(fast, "replicate"));
}

// Parameters are on all ranks, and the optimizer's state is in parts inside a machine only. The
// search finds this plan itself, without named strategies.
TEST(FindsOnTwoAxes, StateShardedInsideMachinesOnly) {
  const auto is_found = [](const Setting& setting) {
    const SearchOutcome outcome = setting.search();
    const Strategy& found = outcome.step.strategy;
    return found.name == "search" && cuts_the_batch(found, kNode) && cuts_the_batch(found, kGpu) &&
           std::ranges::all_of(found.parameters, [](const ParameterStrategy& parameter) {
             return parameter.storage[kNode].is_replicate() &&
                    parameter.storage[kGpu].is_replicate() &&
                    parameter.optimizer_state[kNode].is_replicate() &&
                    parameter.optimizer_state[kGpu].is_shard();
           });
  };
  Setting setting = two_machines();
  setting.deck.train->batch = 64;
  setting.options.baselines = false;
  setting.options.combinations = false;
  setting.machine.links[kGpu].bandwidth = 1e11;
  EXPECT_TRUE(is_found(setting));
  setting.machine.links[kGpu].bandwidth = 1e10;
  EXPECT_FALSE(is_found(setting));
}

// Returns the fraction of the parameters' elements sharded inside machines and whole across.
double stored_inside(const Graph& graph, const Strategy& strategy) {
  double inside = 0.0;
  for (const ParameterStrategy& parameter : strategy.parameters) {
    if (parameter.storage[kNode].is_replicate() && parameter.storage[kGpu].is_shard()) {
      inside += static_cast<double>(elements(graph.tensor(parameter.tensor).shape));
    }
  }
  return inside / static_cast<double>(graph.parameter_count());
}

// The plans are data parallel and compute nothing twice, and memory is too short for gathered
// parameters to stay: hybrid sharding gathers a second time inside a machine only. The search finds
// this plan itself, without named strategies.
TEST(FindsOnTwoAxes, HybridSharding) {
  Setting setting = two_machines();
  setting.deck.train->batch = 8;
  const Graph graph = setting.graph();
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    setting.options.hints.ops.push_back(
        {.rules = std::vector<std::optional<Rule>>(2, find_rule(graph, op, "batch")),
         .recompute = false});
  }
  setting.options.accumulate = {1};
  setting.options.memory_limit = 60'000'000;
  setting.options.baselines = false;
  setting.options.combinations = false;
  setting.machine.links[kGpu].bandwidth = 1e12;
  setting.machine.links[kNode].bandwidth = 2e8;
  const Strategy slow = own_of(setting.search()).strategy;
  EXPECT_GT(stored_inside(graph, slow), 0.6);
  EXPECT_TRUE(std::ranges::any_of(slow.parameters, [](const ParameterStrategy& parameter) {
    return parameter.residency == Residency::pass;
  }));
  setting.machine.links[kNode].bandwidth = 1e11;
  EXPECT_LT(stored_inside(graph, own_of(setting.search()).strategy), 0.1);
}

}  // namespace
}  // namespace hidup
