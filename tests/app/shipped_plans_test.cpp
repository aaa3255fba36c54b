// The search's statements about its plan hold for the strategy that it writes, for every shipped
// model and cluster.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/costs.h"
#include "app/planning.h"
#include "core/check.h"
#include "deck/cluster_deck.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

std::vector<std::string> decks_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(HIDUP_INPUTS "/" + folder)) {
    if (entry.path().extension() == ".yaml") {
      files.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

// Returns true if a plan was found: false where none fits or the cluster has no rates.
bool compare_with_its_file(const PlanningInput& input, const Profile& profile) {
  const RankCosts costs = rank_costs(input.deck, input.mesh, profile);
  SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  options.level = SearchLevel::fast;
  options.time_limit_s = 0.2;
  options.baselines = false;
  SearchResult result = search_strategy(input.graph, input.mesh, CostModel(profile), options);
  if (std::holds_alternative<Infeasible>(result)) {
    return false;
  }
  SearchOutcome& found = std::get<SearchOutcome>(result);
  predict(found.step, costs);
  const std::string text = print_strategy(input.graph, found.step.strategy);
  const Forecast read = forecast(input.graph, parse_strategy(input.graph, input.mesh, text, "file"),
                                 lowering_options(input.deck), costs, options.memory_of_ranks);
  EXPECT_EQ(found.step.seconds(), read.seconds());
  EXPECT_EQ(found.step.prediction.busy.comm_s, read.prediction.busy.comm_s);
  EXPECT_EQ(found.step.plan.bytes, read.plan.bytes);
  EXPECT_EQ(found.step.program.instructions.size(), read.program.instructions.size());
  EXPECT_EQ(text, print_strategy(input.graph, read.strategy));
  EXPECT_LE(read.plan.bytes, input.deck.cluster->device_memory.value_or(read.plan.bytes));
  return true;
}

// On this cluster gradients wait for the network, so a step of llama-7b takes more time and memory
// than blocks of few layers predict.
const std::vector<std::string> kWhereDepthsDiffer = {
    "cluster.device.memory=40GiB", "cluster.device.flops=312TFLOPS",
    "cluster.mesh=[{name: node, size: 4, bandwidth: 100Gbps, shared: 8}, "
    "{name: gpu, size: 8, bandwidth: 300GB/s}]"};

class ShippedPlans : public testing::TestWithParam<std::string> {};

TEST_P(ShippedPlans, AreThoseOfTheirFiles) {
  int plans = 0;
  for (const std::string& model : decks_in("models")) {
    if (model.ends_with("gpt2-124m-finetune.yaml")) {
      continue;  // its data is not shipped
    }
    std::vector<std::vector<std::string>> variations = {{}};
    if (GetParam().ends_with("a100-4x8.yaml")) {
      variations.push_back(kWhereDepthsDiffer);
    }
    for (const std::vector<std::string>& overrides : variations) {
      SCOPED_TRACE(fmt::format("{}, {} override(s)", model, overrides.size()));
      const PlanningInput input = read_planning_input(model, GetParam(), overrides, std::nullopt);
      plans += compare_with_its_file(input, costs_without_ranks(input.deck, input.mesh)) ? 1 : 0;
    }
  }
  EXPECT_GT(plans, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ShippedPlans, testing::ValuesIn(decks_in("clusters")),
                         [](const auto& cluster) {
                           std::string name = std::filesystem::path(cluster.param).stem();
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace hidup
