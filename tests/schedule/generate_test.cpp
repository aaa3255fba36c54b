#include "schedule/generate.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "schedule/csv.h"
#include "schedule/modulo.h"
#include "support.h"

namespace hidup::pipeline {
namespace {

TEST(Pipelines, ChunksLieInALoopOrAV) {
  EXPECT_EQ(make_pipeline(Layout::loop, 6, 3, 1).device_of, (std::vector{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(make_pipeline(Layout::v, 6, 3, 1).device_of, (std::vector{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(make_pipeline(Layout::v, 6, 2, 1).device_of, (std::vector{0, 1, 1, 0, 0, 1}));
}

// The second device is slow, so the first one has gaps for weights passes.
TEST(Generate, WeightsPassesFillGaps) {
  const Made made = make("zb-h1", 2, 3);
  EXPECT_EQ(write_csv(made.pipeline, made.schedule),
            "0F0,0F1,0I0,0W0,0F2,0I1,0W1,0I2,0W2\n"
            "1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2\n");
}

TEST(Generate, PassesThatMeetShareASlot) {
  Pipeline pipeline = make_pipeline(Layout::loop, 1, 1, 3);
  Rule rule{.split = true, .pairs = true};
  rule.devices.resize(1);
  for (int m = 0; m < 3; ++m) {
    rule.devices[0].forward.push_back({{0, m, Pass::forward}, 0});
    rule.devices[0].backward.push_back({{0, m, Pass::backward}, 1});
  }
  const std::optional<Schedule> schedule = generate(pipeline, times_of(pipeline, {}), rule);
  ASSERT_TRUE(schedule);
  EXPECT_EQ(write_csv(pipeline, *schedule),
            "0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B,0I2,0W2\n");
}

TEST(Generate, StopsWhereTheLimitsDo) {
  Pipeline pipeline = make_pipeline(Layout::loop, 1, 1, 1);
  Rule rule;
  rule.devices.resize(1);
  rule.devices[0].forward = {{{0, 0, Pass::forward}, 0}};
  rule.devices[0].backward = {{{0, 0, Pass::backward}, 1}};
  rule.devices[0].limits.live = 0;
  EXPECT_FALSE(generate(pipeline, times_of(pipeline, {}), rule));
}

TEST(ModuloTurns, NoDeviceHasTwoPassesAtOnce) {
  for (const std::vector<int>& hops : {std::vector{1}, {2, 1, 2, 1}, {3, 3, 3, 3}, {1, 2, 3, 1}}) {
    for (const int devices : {1, 2, 3, 4, 7}) {
      const Pipeline pipeline = make_pipeline(Layout::v, 2 * devices, devices, 5);
      std::map<std::pair<int, int>, int64_t> forward, backward;  // (chunk, microbatch) -> turn
      for (const Rule::Device& device : modulo_turns(pipeline, hops)) {
        std::set<int64_t> turns;
        for (const std::vector<Turn>* list : {&device.forward, &device.backward}) {
          int64_t before = -1;
          for (const Turn& turn : *list) {
            EXPECT_TRUE(turns.insert(turn.turn).second);
            EXPECT_GT(turn.turn, before);
            before = turn.turn;
            (list == &device.forward ? forward
                                     : backward)[{turn.task.chunk, turn.task.microbatch}] =
                turn.turn;
          }
        }
        EXPECT_EQ(turns.size(), 2U * 2U * 5U);
      }
      for (int chunk = 1; chunk < pipeline.chunks(); ++chunk) {
        EXPECT_GT((forward[{chunk, 0}]), (forward[{chunk - 1, 0}]));
        EXPECT_GT((backward[{chunk - 1, 0}]), (backward[{chunk, 0}]));
        EXPECT_EQ((forward[{chunk, 4}]), (forward[{chunk, 0}]) + 4 * 6);
      }
    }
  }
}

}  // namespace
}  // namespace hidup::pipeline
