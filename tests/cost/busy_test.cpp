#include "cost/busy.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace hidup {
namespace {

Program streams(const std::vector<StreamKind>& kinds) {
  Program program;
  for (const StreamKind kind : kinds) {
    program.instructions.push_back({.stream = kind});
  }
  return program;
}

constexpr StreamKind kCompute = StreamKind::compute;
constexpr StreamKind kComm = StreamKind::comm;

TEST(BusyTimes, ExposedIsWhereOnlyCommunicationRan) {
  const Program program = streams({kCompute, kComm, kCompute, kComm, kCompute});
  // computation 0-2, 3-5 and 9-10; messages 1-4 (2-3 exposed) and 4-8 (5-8 exposed)
  const std::vector<Interval> times = {{0, 2}, {1, 4}, {3, 5}, {4, 8}, {9, 10}};
  const BusyTimes busy = busy_times(program, times);
  EXPECT_DOUBLE_EQ(busy.compute_s, 5.0);
  EXPECT_DOUBLE_EQ(busy.comm_s, 7.0);
  EXPECT_DOUBLE_EQ(busy.exposed_comm_s, 4.0);
}

TEST(BusyTimes, HiddenAndExposedWholly) {
  const Program program = streams({kCompute, kComm, kComm});
  const std::vector<Interval> times = {{0, 10}, {2, 3}, {12, 13}};
  EXPECT_DOUBLE_EQ(busy_times(program, times).exposed_comm_s, 1.0);
}

TEST(BusyTimes, WithoutCommunication) {
  const BusyTimes busy = busy_times(streams({kCompute}), std::vector<Interval>{{1, 2}});
  EXPECT_DOUBLE_EQ(busy.comm_s, 0.0);
  EXPECT_DOUBLE_EQ(busy.exposed_comm_s, 0.0);
}

// Messages of several streams overlap: their time counts once. Waits for other stages are idle.
TEST(BusyTimes, OfAPipelineHaveIdleTime) {
  const Program program = streams({StreamKind::down, kCompute, kComm, StreamKind::up, kCompute});
  // computation 4-6 and 10-12; messages down 0-4, comm 6-8 and up 7-10: all exposed
  const std::vector<Interval> times = {{0, 4}, {4, 6}, {6, 8}, {7, 10}, {10, 12}};
  const BusyTimes busy = busy_times(program, times);
  EXPECT_DOUBLE_EQ(busy.compute_s, 4.0);
  EXPECT_DOUBLE_EQ(busy.comm_s, 8.0);
  EXPECT_DOUBLE_EQ(busy.exposed_comm_s, 8.0);
  EXPECT_DOUBLE_EQ(busy.idle_s, 6.0);  // 0-4 and 8-10
  EXPECT_EQ(exposed_times(program, times), (std::vector<double>{4, 0, 2, 3, 0}));
}

// A rank has skipped instructions at any time, without length. The first one starts with the step.
TEST(BusyTimes, IdleTimeEndsWithWhatTheRankRuns) {
  const Program program = streams({kCompute, StreamKind::up, kCompute, kCompute});
  const std::vector<Interval> times = {{0, 0}, {2, 3}, {3, 5}, {9, 9}};
  EXPECT_DOUBLE_EQ(busy_times(program, times).idle_s, 3.0);  // 0-3
}

TEST(BusyTimes, WithoutAPipelineIdleTimeIsTheRest) {
  const Program program = streams({kCompute, kComm, kCompute});
  const std::vector<Interval> times = {{0, 2}, {2, 3}, {5, 6}};
  EXPECT_DOUBLE_EQ(busy_times(program, times).idle_s, 2.0);
}

TEST(OverlapRatio, IsTheHiddenPartOfCommunication) {
  EXPECT_DOUBLE_EQ(overlap_ratio({.compute_s = 9.0, .comm_s = 4.0, .exposed_comm_s = 3.0}), 0.25);
  EXPECT_DOUBLE_EQ(overlap_ratio({.compute_s = 1.0, .comm_s = 4.0, .exposed_comm_s = 3.0}), 0.25)
      << "of communication, though it takes longer than computation";
  EXPECT_DOUBLE_EQ(overlap_ratio({.compute_s = 9.0, .comm_s = 4.0}), 1.0);
  EXPECT_EQ(overlap_ratio({.compute_s = 9.0}), 0.0);
}

void expect_mean(const RunBusyTimes& run, size_t busiest, const BusyTimes& mean) {
  EXPECT_EQ(run.busiest(), busiest);
  EXPECT_DOUBLE_EQ(run.mean().compute_s, mean.compute_s);
  EXPECT_DOUBLE_EQ(run.mean().comm_s, mean.comm_s);
  EXPECT_DOUBLE_EQ(run.mean().exposed_comm_s, mean.exposed_comm_s);
}

TEST(RunBusyTimes, AreMeansOfTheRankThatComputesLongest) {
  RunBusyTimes run;
  expect_mean(run, 0, {});
  run.add(std::vector<BusyTimes>{{50.0, 7.0, 6.0}, {40.0, 9.0, 8.0}});
  expect_mean(run, 0, {50.0, 7.0, 6.0});  // the first step counts while it is alone
  const double none = std::numeric_limits<double>::quiet_NaN();
  run.add(std::vector<BusyTimes>{{none, none, none}, {none, none, none}});
  expect_mean(run, 0, {50.0, 7.0, 6.0});
  run.add(std::vector<BusyTimes>{{2.0, 4.0, 3.0}, {4.0, 2.0, 1.0}});
  run.add(std::vector<BusyTimes>{{4.0, 9.0, 9.0, 5.0}, {3.0, 4.0, 1.0, 3.0}});
  expect_mean(run, 1, {3.5, 3.0, 1.0});
  EXPECT_DOUBLE_EQ(run.mean_idle(), 2.0);  // of two ranks in two steps
}

}  // namespace
}  // namespace hidup
