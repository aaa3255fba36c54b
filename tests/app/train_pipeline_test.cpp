// train.pipeline, and what the stages of a plan are said to have.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "app/pipeline_report.h"
#include "app/planning.h"
#include "core/check.h"
#include "cost/busy.h"
#include "cost/play.h"
#include "program/lower.h"
#include "program/memory.h"
#include "schedule/csv.h"
#include "schedule/named.h"
#include "sharding/strategy.h"
#include "simple_costs.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

constexpr const char* kDeck =
    R"(model: {family: bert, layers: 2, hidden: 8, heads: 2, sequence: 4, vocab: 31}
data: {kind: synthetic}
train: {batch: 8, steps: 1, accumulate: 4, pipeline: PIPELINE}
)";

// Returns the deck with that value of train.pipeline. Paths start in the folder of the deck.
std::string deck_with(const std::string& schedule) {
  std::string deck = kDeck;
  const std::string place = "PIPELINE";
  return deck.replace(deck.find(place), place.size(), schedule);
}

// Plans the small model as a pipeline of two stages with train.pipeline.
Strategy in_order_of(const std::string& schedule, const std::string& strategy = "pipeline") {
  const TemporaryFolder folder;
  std::ofstream(folder / "deck.yaml") << deck_with(schedule);
  std::ofstream(folder / "order.csv") << "0F0,0F1,0B0,0B1,0F2,0F3,0B2,0B3\n"
                                         "1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n";
  std::ofstream(folder / "short.csv") << "0F0,0B0\n1F0,1B0\n";
  const PlanningInput input = read_planning_input(folder / "deck.yaml", "", {}, 2);
  return choose_strategy(strategy, input.deck, input.graph, input.mesh, std::nullopt);
}

TEST(TrainPipeline, OrdersTheStagesOfAName) {
  for (const pipeline::NamedSchedule& row : pipeline::named_schedules()) {
    const Strategy strategy = in_order_of(std::string(row.name));
    ASSERT_TRUE(strategy.schedule) << row.name;
    EXPECT_EQ(strategy.schedule->name, row.name);
    EXPECT_EQ(strategy.accumulate, 4);
  }
  EXPECT_EQ(in_order_of("auto").schedule->name, "1f1b");
  const Strategy custom = in_order_of("order.csv");
  EXPECT_EQ(custom.schedule->name, kCustomSchedule);
  EXPECT_EQ(custom.schedule->custom.size(), 2U);
}

TEST(TrainPipeline, LeavesRoomForTheMicrobatchesOfTheDeck) {
  const TemporaryFolder folder;
  std::ofstream(folder / "deck.yaml") << deck_with("auto");
  for (const auto& [settings, groups] :
       {std::pair(std::vector<std::string>{"train.accumulate=auto"}, 8),
        std::pair(std::vector<std::string>{"train.accumulate=auto", "train.microbatches=3"}, 2),
        std::pair(std::vector<std::string>{"train.microbatches=2"}, 4)}) {
    const PlanningInput input = read_planning_input(folder / "deck.yaml", "", settings, 2);
    EXPECT_EQ(choose_strategy("pipeline", input.deck, input.graph, input.mesh, {}).accumulate,
              groups);
  }
}

TEST(TrainPipeline, IsRefusedWhereItDoesNotFit) {
  const auto why = [](const std::string& schedule, const std::string& strategy) -> std::string {
    try {
      in_order_of(schedule, strategy);
      return "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code() == ExitCode::usage || error.code() == ExitCode::file, true);
      return error.what();
    }
  };
  EXPECT_NE(why("1f1b", "dp").find("train.pipeline: the strategy dp has no stages to order"),
            std::string::npos)
      << why("1f1b", "dp");
  EXPECT_NE(why("1f2b", "pipeline").find("found 1f2b (did you mean 1f1b?)"), std::string::npos)
      << why("1f2b", "pipeline");
  EXPECT_NE(why("short.csv", "pipeline").find("row 0: the task 0F1 is missing"), std::string::npos)
      << why("short.csv", "pipeline");
  EXPECT_NE(why("none.csv", "pipeline").find("none.csv"), std::string::npos);
}

TEST(PipelineReport, SaysWhatTheStagesHave) {
  const TemporaryFolder folder;
  std::ofstream(folder / "deck.yaml") << deck_with("auto");
  const PlanningInput input = read_planning_input(folder / "deck.yaml", "", {}, 2);
  const Strategy strategy =
      choose_strategy("pipeline", input.deck, input.graph, input.mesh, std::nullopt);
  const Program program = lower(input.graph, strategy, {});
  const PipelineReport report = report_pipeline(input.graph, strategy, program, {});
  EXPECT_EQ(report.schedule, "1f1b");
  EXPECT_EQ(report.microbatches, 4);
  EXPECT_GT(report.idle, 0.19);  // (2 - 1) / (4 + 2 - 1) with equal stages
  EXPECT_LT(report.idle, 0.4);
  ASSERT_EQ(report.chunks.size(), 2U);
  EXPECT_EQ(report.chunks[0].first, 0);
  EXPECT_EQ(report.chunks[1].first, report.chunks[0].last + 1);
  EXPECT_EQ(report.chunks[1].last + 1, static_cast<OpId>(input.graph.ops().size()));
  EXPECT_NEAR(report.chunks[0].flops_part + report.chunks[1].flops_part, 1.0, 1e-9);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const ChunkReport& chunk = report.chunks[static_cast<size_t>(rank)];
    EXPECT_EQ(chunk.ranks, std::vector<int64_t>{rank});
    EXPECT_EQ(chunk.peak_bytes, plan_memory(program, rank).bytes);
  }
  EXPECT_NE(describe(input.graph, report).find("order 1f1b, 4 microbatches"), std::string::npos);
  EXPECT_EQ(pipeline::chunks_in_csv(schedule_csv(input.graph, strategy)), 2);
}

// An emulated run takes the times that play() gives.
TEST(PipelineReport, PredictsTheIdleTimeOfAnEmulatedRun) {
  const TemporaryFolder folder;
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "v-half"}) {
    std::ofstream(folder / "deck.yaml") << deck_with(name);
    const PlanningInput input = read_planning_input(
        folder / "deck.yaml", "", {"model.layers=4", "model.hidden=128", "model.sequence=128"}, 2);
    const Strategy strategy =
        choose_strategy("pipeline", input.deck, input.graph, input.mesh, std::nullopt);
    const Program program = lower(input.graph, strategy, {});
    const RankCosts costs = simple_costs(1e12);
    const PlayedStep step = play(program, Durations(program, costs));
    double idle = 0.0;
    for (const std::vector<PlayedInstruction>& rank : step.ranks) {
      std::vector<Interval> times(rank.size());
      std::ranges::transform(rank, times.begin(), [](const PlayedInstruction& each) {
        return Interval{to_seconds(each.start), to_seconds(each.end)};
      });
      idle += busy_times(program, times).idle_s / 2;
    }
    const double seconds = to_seconds(step.end);
    EXPECT_NEAR(schedule_idle(input.graph, strategy, program, StepCosts{costs, seconds}),
                idle / seconds, 0.03)
        << name;
  }
}

TEST(PipelineReport, NeedsAPipeline) {
  EXPECT_THROW(schedule_csv(Graph("none"), {.name = "dp"}), Error);
}

}  // namespace
}  // namespace hidup
