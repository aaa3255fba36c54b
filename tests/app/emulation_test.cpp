// The messages about an emulated step before it runs.
#include "app/emulation.h"

#include <gtest/gtest.h>

#include "app/costs.h"
#include "deck/cluster_deck.h"
#include "small_decks.h"

namespace hidup {
namespace {

std::optional<EmulatedForecast> forecast_with(const std::vector<std::string>& overrides) {
  const SmallDecks decks;
  const PlanningInput input = decks.read(overrides);
  const RankCosts costs =
      rank_costs(input.deck, input.mesh, costs_without_ranks(input.deck, input.mesh));
  const Strategy strategy = choose_strategy("dp", input.deck, input.graph, input.mesh);
  const Forecast step = forecast(input.graph, strategy, lowering_options(input.deck), costs);
  const std::optional<EmulatedForecast> emulated =
      forecast_emulated(input.deck, step.program, costs);
  if (emulated && input.deck.cluster->mesh[0].bandwidth_trace.empty()) {
    EXPECT_NEAR(static_cast<double>(emulated->step) * 1e-9, step.prediction.iteration_s,
                1e-9 * static_cast<double>(step.program.instructions.size()));
  }
  return emulated;
}

TEST(ForecastEmulated, IsTheExactStepAndItsFloor) {
  EXPECT_FALSE(forecast_with({}));
  const std::string on = "cluster.emulate=on";
  const EmulatedForecast plain = forecast_with({on}).value();
  EXPECT_GT(plain.floor, 0);
  EXPECT_LE(plain.floor, plain.step);
  const std::string trace = "cluster.mesh.ranks.bandwidth_trace=[{for: 1us, bandwidth: ";
  EXPECT_EQ(forecast_with({on, trace + "1GB/s}]"}).value().step, plain.step);
  const EmulatedForecast slow = forecast_with({on, trace + "250MB/s}]"}).value();
  EXPECT_GT(slow.step, plain.step);
  EXPECT_LE(slow.floor, slow.step);
  const EmulatedForecast devices =
      forecast_with({on, "cluster.devices=[{count: 3, flops: 100GFLOPS}, {flops: 10GFLOPS}]"})
          .value();
  EXPECT_GT(devices.step, 2 * plain.step);
}

}  // namespace
}  // namespace hidup
