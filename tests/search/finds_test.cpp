// The search finds known strategies by itself: in pairs of settings that differ in one number, the
// strategy is the best in one only.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "finds.h"
#include "setting.h"

namespace hidup {
namespace {

bool is_data_parallel(const Strategy& strategy) {
  return std::ranges::all_of(strategy.ops,
                             [](const OpStrategy& op) { return op.rules.at(0).name == "batch"; });
}

bool is_expert_parallel(const Graph& graph, const Strategy& strategy) {
  return all_by(graph, strategy, OpKind::expert_matmul, {"expert"}) &&
         all_by(graph, strategy, OpKind::route, {"batch"});
}

// Returns the fraction of the parameters' elements that the first rank stores.
double stored_part(const Graph& graph, const Strategy& strategy) {
  double stored = 0.0;
  for (const ParameterStrategy& parameter : strategy.parameters) {
    const Region region =
        region_of(graph.tensor(parameter.tensor).shape, parameter.storage, strategy.mesh, 0);
    stored += static_cast<double>(elements(shape_of(region)));
  }
  return stored / static_cast<double>(graph.parameter_count());
}

TEST(Finds, DataParallelismOnOneFastMachine) {
  Setting setting = small_setting();
  setting.machine.links[0].bandwidth = 1e11;
  EXPECT_TRUE(is_data_parallel(setting.search().step.strategy));
  setting.machine.links[0].bandwidth = 1e8;  // gradients take longer than all computation
  EXPECT_FALSE(is_data_parallel(setting.search().step.strategy));
}

TEST(Finds, ExpertParallelismOverSlowLinks) {
  Setting setting = small_setting(4);
  setting.machine.links[0].bandwidth = 1e9;
  EXPECT_TRUE(is_expert_parallel(setting.graph(), own_of(setting.search()).strategy));
  setting.machine.links[0].bandwidth = 1e11;
  EXPECT_FALSE(is_expert_parallel(setting.graph(), own_of(setting.search()).strategy));
}

TEST(Finds, MegatronsPairsWhereTheBatchIsTiny) {
  Setting setting = small_setting();
  setting.deck.model->hidden = 512;
  setting.deck.model->ffn = 2048;
  setting.machine.links[0].latency_s = 1e-6;
  setting.deck.train->batch = 1;
  EXPECT_TRUE(is_tensor_parallel(setting.graph(), own_of(setting.search()).strategy));
  setting.deck.train->batch = 64;
  EXPECT_FALSE(is_tensor_parallel(setting.graph(), own_of(setting.search()).strategy));
}

TEST(Finds, ShardedWeightsWhereMemoryIsTight) {
  Setting setting = small_setting();
  setting.deck.train->batch = 8;
  setting.options.microbatches = {1};
  setting.machine.memory_bandwidth = 1e13;  // makes the update too cheap to divide by messages
  EXPECT_EQ(stored_part(setting.graph(), setting.search().step.strategy), 1.0);
  setting.options.memory_limit = 1'700'000;
  const Candidate tight = own_of(setting.search());
  EXPECT_LT(stored_part(setting.graph(), tight.strategy), 0.5);
  EXPECT_LE(tight.memory_bytes, setting.options.memory_limit);
}

}  // namespace
}  // namespace hidup
