#include "cost/busy.h"

#include <gtest/gtest.h>

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
  // compute 0-2, 3-5 and 9-10; comm 1-4 (exposed 2-3) and 4-8 (exposed 5-8)
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

TEST(OverlapRatio, IsWhatTheShorterStreamHides) {
  EXPECT_DOUBLE_EQ(overlap_ratio({.compute_s = 4.0, .comm_s = 2.0}, 4.5), 0.75);
  EXPECT_DOUBLE_EQ(overlap_ratio({.compute_s = 2.0, .comm_s = 4.0}, 4.0), 1.0);
  EXPECT_DOUBLE_EQ(overlap_ratio({.compute_s = 4.0, .comm_s = 2.0}, 6.0), 0.0);
}

TEST(OverlapRatio, IsNeverBelowZero) {
  EXPECT_EQ(overlap_ratio({.compute_s = 4.0, .comm_s = 2.0}, 9.0), 0.0) << "idle time";
  EXPECT_EQ(overlap_ratio({.compute_s = 4.0, .comm_s = 0.0}, 5.0), 0.0);
}

}  // namespace
}  // namespace hidup
