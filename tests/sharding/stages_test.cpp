// Pipeline stages of strategies, and their text.
#include "sharding/stages.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "models/transformer.h"
#include "schedule/named.h"
#include "search/named/named_strategies.h"
#include "search/named/pipeline.h"
#include "sharding/read_strategy.h"
#include "sharding/strategy.h"
#include "small_deck.h"

namespace hidup {
namespace {

Graph model() {
  Deck deck = small_deck_of("llama");
  deck.model->layers = 4;
  deck.train->batch = 8;
  return build_model(deck, 31);
}

Mesh mesh_of_stages(int64_t stages) {
  return {{.name = "pipe", .size = stages}, {.name = "inner", .size = 2}};
}

Strategy in_order(const Graph& graph, const std::string& schedule, int64_t stages, int groups) {
  Strategy strategy = named_strategy("pipe=pipeline,inner=dp", graph, mesh_of_stages(stages));
  strategy.accumulate = groups;
  return with_stages(graph, std::move(strategy), {.axis = 0, .name = schedule});
}

TEST(Stages, OfANameAreAPipelineAsLongAsTheAxis) {
  const Graph graph = model();
  const Strategy strategy = named_strategy("pipe=pipeline,inner=dp", graph, mesh_of_stages(4));
  ASSERT_TRUE(strategy.schedule);
  EXPECT_EQ(strategy.schedule->name, "1f1b");
  EXPECT_EQ(strategy.accumulate, 4);  // 8 sequences on 2 ranks of a stage
  const Stages stages = stages_of(graph, strategy);
  EXPECT_EQ(stages.pipeline.device_of, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(stages.coordinates, (std::vector<std::vector<int64_t>>{{0}, {1}, {2}, {3}}));
  EXPECT_TRUE(std::ranges::is_sorted(stages.chunk_of));
  const std::vector<double> flops = flops_of_chunks(graph, stages);
  EXPECT_LT(std::ranges::max(flops), 1.6 * std::ranges::min(flops));
}

TEST(Stages, OfEveryScheduleSurviveTheirText) {
  const Graph graph = model();
  for (const pipeline::NamedSchedule& row : pipeline::named_schedules()) {
    const Strategy strategy = in_order(graph, std::string(row.name), 2, 3);
    const std::string text = print_strategy(graph, strategy);
    const Strategy read = parse_strategy(graph, strategy.mesh, text, "file");
    EXPECT_EQ(read.schedule, strategy.schedule) << row.name;
    EXPECT_EQ(print_strategy(graph, read), text) << row.name;
    const Stages stages = stages_of(graph, read);
    EXPECT_EQ(stages.pipeline.chunks(), 2 * row.chunks_per_device) << row.name;
    EXPECT_EQ(schedule_of(graph, read, stages),
              schedule_of(graph, strategy, stages_of(graph, strategy)));
  }
}

TEST(Stages, OfACustomOrderSurviveTheirText) {
  const Graph graph = model();
  Strategy strategy = in_order(graph, "zb-v", 2, 3);
  const Stages stages = stages_of(graph, strategy);
  strategy.schedule->custom = schedule_of(graph, strategy, stages);
  strategy.schedule->name = kCustomSchedule;
  const std::string text = print_strategy(graph, strategy);
  const Strategy read = parse_strategy(graph, strategy.mesh, text, "file");
  EXPECT_EQ(read.schedule, strategy.schedule);
  EXPECT_EQ(print_strategy(graph, read), text);
}

// Every slot follows the slots whose tasks it needs.
TEST(Stages, SlotsOfAllDevicesHaveOneOrder) {
  const Graph graph = model();
  for (const pipeline::NamedSchedule& row : pipeline::named_schedules()) {
    const Strategy strategy = in_order(graph, std::string(row.name), 4, 5);
    const Stages stages = stages_of(graph, strategy);
    const pipeline::Schedule schedule = schedule_of(graph, strategy, stages);
    pipeline::TaskTable<char> done(stages.pipeline, 0);
    std::vector<size_t> next(schedule.size(), 0);
    for (const StageSlot& slot : slots_in_order(graph, stages, schedule)) {
      size_t& own = next[static_cast<size_t>(slot.device)];
      EXPECT_EQ(schedule[static_cast<size_t>(slot.device)][own++].tasks, slot.tasks) << row.name;
      for (const pipeline::Task& task : slot.tasks) {
        const auto cause = cause_of(stages.pipeline, task);
        EXPECT_TRUE(!cause || done[*cause] != 0) << row.name;
      }
      for (const pipeline::Task& task : slot.tasks) {
        done[task] = 1;
      }
    }
  }
}

TEST(Stages, AnOperationThatOthersAwaitKeepsItsLevel) {
  const Graph graph = model();
  Strategy strategy = in_order(graph, "1f1b", 2, 3);
  // The second half of the model goes back to the first stage, and then to the second again.
  const std::vector<int> chunks = divide_in_chunks(graph, 4);
  for (size_t op = 0; op < chunks.size(); ++op) {
    strategy.ops[op].rules[0] = with_share(replicate_rule(graph, static_cast<OpId>(op)),
                                           strategy.mesh[0], ShareNumber::only(chunks[op] % 2));
  }
  const Stages stages = stages_of(graph, strategy);
  EXPECT_EQ(stages.pipeline.device_of, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(stages.chunk_of, chunks);
}

// Replaces the line that begins with `key` in the strategy's text.
std::string with_schedule(std::string text, const std::string& schedule) {
  const size_t begin = text.find("schedule: ");
  const size_t end = text.find('\n', begin);
  return text.replace(begin, end - begin, schedule);
}

TEST(Stages, WrongSchedulesAreRefused) {
  const Graph graph = model();
  const Strategy strategy = in_order(graph, "1f1b", 2, 3);
  const std::string text = print_strategy(graph, strategy);
  struct Refused {
    std::string schedule, why;
  };
  for (const Refused& each : std::vector<Refused>{
           {"schedule: {axis: pip, name: 1f1b}", "schedule: the mesh has no axis pip"},
           {"schedule: {axis: pipe, name: 1f2b}", "did you mean 1f1b?"},
           {"schedule: {axis: pipe, name: gpipe, k: 2}", "schedule: k is for kfkb"},
           {"schedule: {axis: pipe, name: kfkb, k: 0}", "expected a whole number from 1"},
           {"schedule: {axis: pipe, name: custom}", "custom needs the key order"},
           {"schedule: {axis: pipe, name: 1f1b, order: []}", "order is for the name custom"},
           {"schedule: {axis: pipe, name: 1f1b, cuts: [nothing]}", "the graph has no operation"},
           {"schedule: {axis: pipe, name: 1f1b, when: now}", "when"},
           {"schedule: {axis: inner, name: 1f1b}", "computes on all ranks of the axis inner"},
           {"schedule: {axis: pipe, name: zb-v}", "stages"},
           {"schedule: {axis: pipe, name: 1f1b, live: 0}", "expected a whole number from 1"},
           {"schedule: {axis: pipe, name: custom, order: [\"0F0\"]}",
            "no row has a task of stage 1"},
           {"schedule: {axis: pipe, name: custom, order: [\"0F0,0F1,0F2,0B0,0B1,0B2\"]}",
            "no row has a task of stage 1"},
           {"schedule: {axis: pipe, name: custom, order: "
            "[\"0F0,0F1,0F2,0B0,0B1,0B2\", \"1B0,1F0,1F1,1B1,1F2,1B2\"]}",
            "row 1, cell 0"},
           {"schedule: {axis: pipe, name: custom, order: "
            "[\"0F0,0F1,0F2,0B0,0B1,0B2,0F3\", \"1F0,1B0,1F1,1B1,1F2,1B2\"]}",
            "row 0, cell 6"},
           {"schedule: 1f1b", "axis"}}) {
    try {
      parse_strategy(graph, strategy.mesh, with_schedule(text, each.schedule), "file");
      ADD_FAILURE() << each.schedule;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << each.schedule;
      EXPECT_NE(std::string(error.what()).find(each.why), std::string::npos)
          << each.schedule << ": " << error.what();
    }
  }
}

TEST(Stages, OperationsShareNoRanks) {
  const Graph graph = model();
  Strategy strategy = in_order(graph, "1f1b", 4, 3);
  strategy.mesh[0].shares = {{1, 1, 0, 0}, {0, 1, 1, 1}};
  for (size_t op = 0; op < strategy.ops.size(); ++op) {
    strategy.ops[op].rules[0] =
        with_share(replicate_rule(graph, static_cast<OpId>(op)), strategy.mesh[0],
                   ShareNumber::of(2 * op < strategy.ops.size() ? 1 : 2));
  }
  EXPECT_THROW(stages_of(graph, strategy), Error);
  strategy.mesh[0].shares[1] = {0, 0, 3, 1};
  EXPECT_EQ(stages_of(graph, strategy).coordinates,
            (std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}}));
}

TEST(Stages, AModelHasOnePipeline) {
  const Graph graph = model();
  EXPECT_THROW(named_strategy("pipe=pipeline,inner=pipeline", graph, mesh_of_stages(2)), Error);
  const Strategy alone = named_strategy("pipeline", graph, mesh_of_stages(2));
  EXPECT_EQ(alone.schedule->axis, 0U);
  EXPECT_EQ(alone.ops[0].rules[1].name, "batch");
}

}  // namespace
}  // namespace hidup
