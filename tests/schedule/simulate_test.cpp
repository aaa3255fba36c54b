#include "schedule/simulate.h"

#include <gtest/gtest.h>

#include "schedule/csv.h"
#include "schedule/improve.h"
#include "support.h"

namespace hidup::pipeline {
namespace {

struct Expected {
  Nanoseconds start, end;
};

void expect_slots(const DeviceRun& run, const std::vector<Expected>& expected) {
  ASSERT_EQ(run.slots.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(run.slots[i].start, expected[i].start) << i;
    EXPECT_EQ(run.slots[i].end, expected[i].end) << i;
  }
}

TEST(Simulate, AddsTimesAndMoves) {
  const ReadSchedule read = read_csv("0F0,0I0,0W0\n1F0,1B0\n", 2, 1);
  const Times times{.forward = {10, 20},
                    .backward = {30, 40},
                    .weights = {5, 6},
                    .move = 3,
                    .pair = std::nullopt};
  const Simulation run = simulate(read.pipeline, read.schedule, times);
  expect_slots(run.devices[0], {{0, 10}, {82, 112}, {112, 117}});
  expect_slots(run.devices[1], {{13, 33}, {33, 79}});  // with the weights' 6
  EXPECT_EQ(run.makespan, 117);
  EXPECT_EQ(run.devices[0].work, 45);
  EXPECT_EQ(run.devices[0].span(), 117);
  EXPECT_EQ(run.devices[1].span(), 66);
  EXPECT_EQ(lower_bound(read.pipeline, read.schedule, times), 13 + 66 + 3 + 30 + 5);
}

TEST(Simulate, MovesHoldBothDevices) {
  const ReadSchedule read = read_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", 2, 2);
  Times times{.forward = {10, 20},
              .backward = {20, 40},
              .weights = {0, 0},
              .move = 3,
              .pair = std::nullopt,
              .moves_hold = true};
  const Simulation run = simulate(read.pipeline, read.schedule, times);
  expect_slots(run.devices[0], {{0, 10}, {13, 23}, {76, 96}, {142, 162}});  // sends from 10 to 13
  expect_slots(run.devices[1],
               {{13, 33}, {33, 73}, {79, 99}, {99, 139}});  // from 73 on: sends, receives
  EXPECT_EQ(run.devices[1].work, 120);
  EXPECT_LE(lower_bound(read.pipeline, read.schedule, times), run.makespan);
  times.moves_hold = false;
  EXPECT_EQ(simulate(read.pipeline, read.schedule, times).makespan, 156);
}

TEST(Simulate, MovesWithinADeviceTakeNoTime) {
  const ReadSchedule read = read_csv("0F0,1F0,1B0,0B0\n", 2, 1);
  const Times times{
      .forward = {1, 1}, .backward = {1, 1}, .weights = {0, 0}, .move = 9, .pair = std::nullopt};
  EXPECT_EQ(simulate(read.pipeline, read.schedule, times).makespan, 4);
}

TEST(Simulate, ASlotOfTwoWaitsForBothAndTakesTheTimeOfAPair) {
  const ReadSchedule read = read_csv("0F0,0F1,,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1\n", 2, 2);
  Times times{
      .forward = {2, 2}, .backward = {2, 2}, .weights = {1, 1}, .move = 0, .pair = std::nullopt};
  Simulation run = simulate(read.pipeline, read.schedule, times);
  expect_slots(run.devices[1], {{2, 4}, {4, 9}, {9, 12}});
  times.pair = 4;
  run = simulate(read.pipeline, read.schedule, times);
  expect_slots(run.devices[1], {{2, 4}, {4, 8}, {8, 11}});
  expect_slots(run.devices[0], {{0, 2}, {2, 4}, {4, 4}, {8, 11}, {11, 14}});
  EXPECT_EQ(run.devices[1].live, 1) << "one becomes live as the other one ends";
  EXPECT_EQ(run.devices[1].work, 2 + 4 + 3);
}

TEST(Simulate, CountsWhatADeviceKeeps) {
  const ReadSchedule read = read_csv("0F0,0F1,0F2,0I0,0I1,0W0,0I2,0W2,0W1\n", 1, 3);
  const Times times{
      .forward = {1}, .backward = {1}, .weights = {1}, .move = 0, .pair = std::nullopt};
  const DeviceRun run = simulate(read.pipeline, read.schedule, times).devices[0];
  EXPECT_EQ(run.live, 3);
  EXPECT_EQ(run.pending, 2);
  EXPECT_EQ(run.held, 3);
}

TEST(Simulate, LeavesOutWhatWaitsForever) {
  const Pipeline pipeline = make_pipeline(Layout::loop, 2, 2, 1);
  const Task forward{0, 0, Pass::forward};
  const Schedule schedule = {{{{forward}}, {{{0, 0, Pass::backward}}}}, {}};
  const Simulation run = simulate(pipeline, schedule, times_of(pipeline, {}));
  EXPECT_EQ(run.devices[0].slots.size(), 1U);
}

TEST(LowerBound, IsNoMoreThanAnyMakespan) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const int devices : {2, 4}) {
      const Made made = make(named.name, devices, 6, {3e6, 2e6, 1e6, 5e5});
      EXPECT_LE(made.lower_bound(), made.makespan()) << named.name;
      EXPECT_GE(made.lower_bound(), 36.0) << named.name;
    }
  }
}

TEST(Improve, ShortensASchedule) {
  const ReadSchedule read = read_csv("0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n", 2, 3);
  const Times times = times_of(read.pipeline, {});
  EXPECT_EQ(simulate(read.pipeline, read.schedule, times).makespan, nanoseconds(18));
  for (const auto& [live, makespan] : {std::pair(1, 18), {2, 12}, {3, 12}}) {
    const std::vector<Limits> limits(2, {.live = live, .held = kNoLimit});
    const Schedule improved = improve(read.pipeline, read.schedule, times, limits, 1000);
    const Simulation run = simulate(read.pipeline, improved, times);
    EXPECT_EQ(run.makespan, nanoseconds(makespan)) << live;
    EXPECT_LE(run.devices[0].live, live);
    EXPECT_EQ(improve(read.pipeline, read.schedule, times, limits, 1000), improved);
  }
}

}  // namespace
}  // namespace hidup::pipeline
