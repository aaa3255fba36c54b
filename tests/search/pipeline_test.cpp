// Whole programs of pipelines against their schedules.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "cost/play.h"
#include "cost/stage_times.h"
#include "models/transformer.h"
#include "program/memory.h"
#include "program/verify.h"
#include "schedule/csv.h"
#include "schedule/named.h"
#include "schedule/simulate.h"
#include "search/named/named_strategies.h"
#include "search/named/pipeline.h"
#include "sharding/stages.h"
#include "simple_costs.h"
#include "small_deck.h"

namespace hidup {
namespace {

using pipeline::NamedSchedule;
using pipeline::Pass;
using pipeline::Task;

Graph pipeline_model(int64_t layers, int64_t batch) {
  Deck deck = small_deck_of("llama");
  deck.model->layers = layers;
  deck.model->hidden = 128;
  deck.model->heads = 4;
  deck.model->dropout = 0.0;
  deck.model->ffn = 256;
  deck.model->sequence = 64;
  deck.train->batch = batch;
  return build_model(deck, 31);
}

struct PlayedPipeline {
  Strategy strategy;
  Stages stages;
  pipeline::Schedule schedule;
  Program program;
  PlayedStep step;
};

PlayedPipeline play_pipeline(const Graph& graph, const NamedSchedule& row, int64_t stages,
                             int groups) {
  const Mesh mesh = {{.name = "pipe", .size = stages}};
  PlayedPipeline played;
  played.strategy = named_strategy("pipeline", graph, mesh);
  played.strategy.accumulate = groups;
  played.strategy = with_stages(graph, played.strategy, {.axis = 0, .name = std::string(row.name)});
  played.stages = stages_of(graph, played.strategy);
  played.schedule = schedule_of(graph, played.strategy, played.stages);
  played.program = lower(graph, played.strategy, simple_lowering());
  played.step = play(played.program, Durations(played.program, simple_costs(1e10)));
  return played;
}

// Returns the end of the schedule with the times of the program's computation.
Nanoseconds scheduled_end(const PlayedPipeline& played, const Graph& graph) {
  const pipeline::Times times =
      stage_times(played.program, played.stages,
                  slots_in_order(graph, played.stages, played.schedule), simple_costs(1e10));
  return simulate(played.stages.pipeline, played.schedule, times).makespan;
}

Nanoseconds end_of_slots(const PlayedPipeline& played) {
  Nanoseconds end = 0;
  for (size_t i = 0; i < played.program.instructions.size(); ++i) {
    for (const std::vector<PlayedInstruction>& rank : played.step.ranks) {
      end = played.program.instructions[i].slot >= 0 ? std::max(end, rank[i].end) : end;
    }
  }
  return end;
}

// Moves are short here. Woven passes of dualpipe-v hide what separates the passes of others.
TEST(Pipelines, PlayAsTheirSchedules) {
  for (const NamedSchedule& row : pipeline::named_schedules()) {
    for (const int64_t stages : {2, 4}) {
      const auto groups = static_cast<int>(2 * stages);
      const Graph graph = pipeline_model(2 * stages, groups);
      const PlayedPipeline played = play_pipeline(graph, row, stages, groups);
      const double part = static_cast<double>(end_of_slots(played)) /
                          static_cast<double>(scheduled_end(played, graph));
      EXPECT_LT(part, 1.01) << row.name << ", " << stages << " stages";
      EXPECT_GT(part, row.pairs ? 0.95 : 1.0) << row.name << ", " << stages << " stages";
      for (int64_t rank = 0; rank < stages; ++rank) {
        EXPECT_NO_THROW(verify(played.program, plan_memory(played.program, rank))) << row.name;
      }
    }
  }
}

// Activations of the first stage, over those of 1f1b.
TEST(Pipelines, TakeTheMemoryOfTheirLiveMicrobatches) {
  constexpr int64_t kStages = 4;
  constexpr int kGroups = 8;
  const Graph graph = pipeline_model(2 * kStages, kGroups);
  const auto bytes = [&](const char* name, int64_t rank) {
    const PlayedPipeline played =
        play_pipeline(graph, *pipeline::find_schedule(name), kStages, kGroups);
    return static_cast<double>(plan_memory(played.program, rank).activation_bytes);
  };
  const double of_1f1b = bytes("1f1b", 0);
  EXPECT_NEAR(bytes("gpipe", 0) / of_1f1b, 2.0, 0.1);  // 8 live microbatches instead of 4
  EXPECT_NEAR(bytes("dapple", 0) / of_1f1b, 7.0 / 4, 0.1);
  EXPECT_NEAR(bytes("zb-h1", 0) / of_1f1b, 1.0, 0.1);
  EXPECT_NEAR(bytes("zb-h2", 0) / of_1f1b, 2.0, 0.15);
  EXPECT_NEAR(bytes("1f1b", 2) / of_1f1b, 0.5, 0.05);  // 2 live microbatches
  EXPECT_NEAR(bytes("zb-v", 0) / of_1f1b, 1.0, 0.1);
  EXPECT_LT(bytes("v-half", 0) / of_1f1b, 0.85);
  EXPECT_LT(bytes("v-min", 0) / of_1f1b, 0.72);
}

// Values that wait to be sent, or arrive early, are bounded by slots and not by microbatches.
TEST(Pipelines, TakeNoMoreMemoryWithMoreMicrobatches) {
  const auto bytes = [](int groups, int64_t rank) {
    const Graph graph = pipeline_model(8, groups);
    const PlayedPipeline played = play_pipeline(graph, *pipeline::find_schedule("1f1b"), 4, groups);
    return static_cast<double>(plan_memory(played.program, rank).activation_bytes);
  };
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_LT(bytes(32, rank), 1.05 * bytes(8, rank)) << rank;
  }
}

Strategy two_stages_of_two(const Graph& graph, const std::string& schedule,
                           const std::string& inner) {
  const Mesh mesh = {{.name = "pipe", .size = 2}, {.name = "inner", .size = 2}};
  Strategy strategy = named_strategy("pipe=pipeline,inner=" + inner, graph, mesh);
  strategy.accumulate = 3;
  return with_stages(graph, std::move(strategy), {.axis = 0, .name = schedule});
}

// The weights passes of the first stage complete its last chunk, its first, then the one between.
TEST(Pipelines, SendGradientsThatAreOnePieceOfMemory) {
  const Graph graph = pipeline_model(6, 2);
  const Mesh mesh = {{.name = "pipe", .size = 2}, {.name = "inner", .size = 2}};
  Strategy strategy = named_strategy("pipe=pipeline,inner=dp", graph, mesh);
  strategy.accumulate = 1;
  const pipeline::ReadSchedule order = pipeline::read_csv(
      "0F0,2F0,4F0,4I0,2I0,0I0,4W0,0W0,2W0\n"
      "1F0,3F0,5F0,5B0,3B0,1B0\n",
      6, 1);
  strategy = with_stages(graph, std::move(strategy),
                         {.axis = 0, .name = kCustomSchedule, .custom = order.schedule});
  // A bucket is more than one chunk has, and less than two.
  const Program program = lower(graph, strategy, simple_lowering(1 << 20));
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
  }
}

// A stage keeps what it receives, so that nobody sends it again for a recomputation.
TEST(Pipelines, SendActivationsOnce) {
  const Graph graph = pipeline_model(4, 12);
  for (const bool recompute : {false, true}) {
    Strategy strategy = two_stages_of_two(graph, "1f1b", "dp");
    for (OpId op = 0; op < static_cast<OpId>(strategy.ops.size()); ++op) {
      strategy.ops[static_cast<size_t>(op)].recompute = recompute && can_recompute(graph, op);
    }
    const Program program = lower(graph, strategy, simple_lowering());
    EXPECT_EQ(std::ranges::count(program.instructions, StreamKind::down, &Instruction::stream), 3);
    EXPECT_EQ(std::ranges::count(program.instructions, StreamKind::up, &Instruction::stream), 3);
    EXPECT_EQ(std::ranges::count(program.instructions, Opcode::move, &Instruction::opcode), 6);
  }
}

}  // namespace
}  // namespace hidup
