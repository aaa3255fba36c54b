// Memory of shipped decks under strategies that gather parameters or recompute activations, within
// bounds that other systems keep, too.
#include <gtest/gtest.h>

#include "app/costs.h"
#include "app/planning.h"

namespace hidup {
namespace {

constexpr double kGiB = 1 << 30;

struct Figures {
  double gib = 0.0;  // per rank
  double step_s = 0.0;
};

Forecast forecast_of(const std::string& model, const std::string& cluster,
                     const std::string& strategy, const std::vector<std::string>& overrides) {
  const PlanningInput input =
      read_planning_input(HIDUP_INPUTS "/models/" + model + ".yaml",
                          HIDUP_INPUTS "/clusters/" + cluster + ".yaml", overrides, std::nullopt);
  const Profile costs = costs_without_ranks(input.deck, input.mesh);
  return forecast(input.graph,
                  choose_strategy(strategy, input.deck, input.graph, input.mesh, costs),
                  lowering_options(input.deck), rank_costs(input.deck, input.mesh, costs));
}

Figures figures_of(const std::string& model, const std::string& cluster,
                   const std::string& strategy, const std::vector<std::string>& overrides) {
  const Forecast step = forecast_of(model, cluster, strategy, overrides);
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

// FSDP's usual count: a share of the parameters' state, the activations of a sequence, and the
// largest parameter's whole gradient while it is scattered.
TEST(MemoryFigures, OfLlamaUnderFsdpTermByTerm) {
  const MemoryPlan plan = forecast_of("llama-7b", "h100-16x8", "fsdp", {}).plan;
  constexpr int64_t kRanks = 128, kLayers = 32, kHidden = 4096, kHeads = 32, kWidth = 11008,
                    kVocabulary = 32000, kTokens = 4096, kParameters = 6'738'415'616;
  constexpr int64_t kHalf = 2, kFloat = 4;  // bytes of bf16 and f32
  EXPECT_EQ(plan.parameter_bytes, kParameters / kRanks * kHalf);
  EXPECT_EQ(plan.gradient_bytes, kParameters / kRanks * kFloat);
  EXPECT_EQ(plan.optimizer_bytes, kParameters / kRanks * 3 * kFloat);  // master, two moments

  constexpr int64_t kStream = kTokens * kHidden * kHalf;
  constexpr int64_t kNormScales = kTokens * kFloat;
  // Activations of a layer: both norms, q, k, v, attention, its projection and the sum after the
  // feed-forward network; gate, up and their product; a number per row for attention and norms.
  constexpr int64_t kLayer =
      8 * kStream + 3 * kTokens * kWidth * kHalf + kHeads * kTokens * kFloat + 2 * kNormScales;
  // The ends of the model in the forward pass: three streams, the weights of the last norm and the
  // head as their gather brings them, the head's again as its product reads it, and the logits. The
  // flat reduce-scatter of the head's gradient needs no copy, so the backward pass has less.
  constexpr int64_t kEnds = 3 * kStream + kNormScales + 2 * kVocabulary * kHidden * kHalf +
                            kHidden * kHalf + kTokens * kVocabulary * kHalf;
  EXPECT_EQ(plan.activation_bytes, kLayers * kLayer + kEnds);
}

}  // namespace
}  // namespace hidup
