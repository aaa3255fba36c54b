// What shipped decks need under strategies whose parameters and activations come and go: bounds
// that others' systems keep, too.
#include <gtest/gtest.h>

#include "app/costs.h"
#include "app/planning.h"

namespace hidup {
namespace {

constexpr double kGiB = 1 << 30;

struct Figures {
  double gib = 0.0;  // of a rank
  double step_s = 0.0;
};

Figures figures_of(const std::string& model, const std::string& cluster,
                   const std::string& strategy, const std::vector<std::string>& overrides) {
  const PlanningInput input =
      read_planning_input(HIDUP_INPUTS "/models/" + model + ".yaml",
                          HIDUP_INPUTS "/clusters/" + cluster + ".yaml", overrides, std::nullopt);
  const Profile costs = costs_without_ranks(input.deck, input.mesh);
  const Forecast step =
      forecast(input.graph, choose_strategy(strategy, input.deck, input.graph, input.mesh, costs),
               input.deck, rank_costs(input.deck, input.mesh, costs));
  return {static_cast<double>(step.plan.bytes) / kGiB, step.prediction.iteration_s};
}

TEST(MemoryFigures, OfGpt2OnEightRanks) {
  const auto figures = [](const std::string& strategy, const std::string& recompute) {
    return figures_of("gpt2-350m", "v100-1x8", strategy,
                      {"train.batch=8", "train.recompute=" + recompute});
  };
  const Figures kept = figures("fsdp-kept", "none");
  const Figures fsdp = figures("fsdp", "none");
  const Figures block = figures("fsdp", "block");
  const Figures cheap = figures("fsdp", "cheap");
  EXPECT_GT(kept.gib, 3.5);
  EXPECT_LE(fsdp.gib, 2.9);
  EXPECT_LE(block.gib, 1.6);
  EXPECT_LE(block.step_s, 1.36 * fsdp.step_s);
  EXPECT_LT(cheap.gib, fsdp.gib);
  EXPECT_LT(cheap.step_s, block.step_s);
}

TEST(MemoryFigures, OfBertWithExpertsOnEightTimesEightRanks) {
  EXPECT_LE(figures_of("bert-sgmoe", "v100-8x8-10gbps", "fsdp", {}).gib, 3.6);
}

}  // namespace
}  // namespace hidup
