// Changes of shares in mid-run, without a run.
#include "app/adaptation.h"

#include <gtest/gtest.h>

#include <utility>

#include "app/costs.h"
#include "app/run_search.h"
#include "small_decks.h"

namespace hidup {
namespace {

// Inputs and costs of a run on four ranks in emulated time, whose plans are there at once.
struct AdaptingRun {
  SmallDecks decks;
  PlanningInput planning = decks.read({"train.adapt=shares", "cluster.emulate=on"});
  Inputs inputs{.decks = {.deck = planning.deck},
                .mesh = planning.mesh,
                .mpi_ranks = {},
                .files = {},
                .data = {},
                .graph = planning.graph,
                .initial = {}};
  MachineCosts known{.costs = costs_without_ranks(planning.deck, planning.mesh),
                     .memory = {0, 0, 0, 0}};
  Strategy strategy =
      choose_strategy("dp", planning.deck, planning.graph, planning.mesh, *known.costs);

  // Returns what rank 0 logs in 20 steps after rank 1 became slow.
  std::string log(Adaptation& adaptation) const {
    adaptation.hear({.slower_by = 3.0}, {.ranks = {1}});
    testing::internal::CaptureStderr();
    for (int64_t step = 1; step <= 20; ++step) {
      adaptation.look({.step = step, .wall_s = 1.0});
    }
    return testing::internal::GetCapturedStderr();
  }
};

TEST(Adaptation, WantsSharesForASlowRank) {
  const AdaptingRun run;
  Adaptation adaptation(run.inputs, run.known, run.strategy, nullptr);
  EXPECT_NE(run.log(adaptation).find("adapt: new shares are predicted to take"), std::string::npos);
  EXPECT_TRUE(adaptation.wants_change());
}

// The deck's devices are those of three ranks, so no plan for four can be made.
TEST(Adaptation, APlanThatFailsIsAWarning) {
  AdaptingRun run;
  run.inputs.decks.deck =
      run.decks
          .read({"train.adapt=shares", "cluster.emulate=on",
                 "cluster.mesh=[{name: ranks, size: 3, bandwidth: 1GB/s, latency: 5us}]",
                 "cluster.devices=[{count: 1}, {count: 2, flops: 50GFLOPS}]"})
          .deck;
  Adaptation adaptation(run.inputs, run.known, run.strategy, nullptr);
  const std::string log = run.log(adaptation);
  const std::string warning = "warning: adapt: no new shares are planned: ";
  const size_t at = log.find(warning);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(warning, at + 1), std::string::npos) << log;
  EXPECT_FALSE(adaptation.wants_change());
}

}  // namespace
}  // namespace hidup
