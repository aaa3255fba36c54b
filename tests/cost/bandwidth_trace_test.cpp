// Ends of messages over links whose bandwidth varies.
#include "cost/bandwidth_trace.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "core/random.h"

namespace hidup {
namespace {

TEST(BandwidthTrace, WithoutPhasesIsTheNominalLink) {
  EXPECT_EQ(BandwidthTrace().end_of(7, 100), 107);
  EXPECT_EQ(BandwidthTrace().least(100), 100);
}

TEST(BandwidthTrace, BytesPassAtTheBandwidthOfTheirTime) {
  // A period has 10 us at the nominal bandwidth and 10 us at a quarter.
  const BandwidthTrace trace(1e9, {{1e-5, 1e9}, {1e-5, 2.5e8}});
  EXPECT_EQ(trace.end_of(0, 10000), 10000);
  EXPECT_EQ(trace.end_of(0, 10001), 10004) << "one byte more, at a quarter";
  EXPECT_EQ(trace.end_of(0, 12500), 20000);
  EXPECT_EQ(trace.end_of(0, 12501), 20001);
  EXPECT_EQ(trace.end_of(10000, 1000), 14000);
  EXPECT_EQ(trace.end_of(15000, 2250), 21000) << "1,250 in the slow phase, 1,000 in the next";
  EXPECT_EQ(trace.end_of(0, 125000), 200000) << "ten periods";
  EXPECT_EQ(trace.end_of(20000LL * 1000000, 10000), 20000LL * 1000000 + 10000);
  EXPECT_EQ(trace.end_of(13, 0), 13);
  EXPECT_EQ(trace.least(1000), 1000);
}

TEST(BandwidthTrace, LeastIsAtTheFastestPhase) {
  const BandwidthTrace trace(1e9, {{1e-5, 4e9}, {1e-5, 2.5e8}});
  EXPECT_EQ(trace.least(1000), 250);
  EXPECT_EQ(trace.least(1001), 251) << "whole nanoseconds";
}

// Computes the end nanosecond by nanosecond, in the units of the trace.
Nanoseconds end_by_steps(double nominal, const std::vector<BandwidthTrace::Phase>& phases,
                         Nanoseconds start, Nanoseconds duration) {
  std::vector<double> pace;
  for (const BandwidthTrace::Phase& phase : phases) {
    pace.insert(pace.end(), static_cast<size_t>(phase.for_s * 1e9 + 0.5), phase.bandwidth);
  }
  double left = static_cast<double>(duration) * nominal;
  Nanoseconds now = start;
  for (; left > 0.0; ++now) {
    left -= pace[static_cast<size_t>(now) % pace.size()];
  }
  return now;
}

TEST(BandwidthTrace, EqualsASumOverNanoseconds) {
  const RandomStream random = random_stream(1, "traces");
  uint64_t drawn = 0;
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(random.uniform(drawn++) * static_cast<double>(end));
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<BandwidthTrace::Phase> phases;
    for (int64_t i = below(4); i >= 0; --i) {
      phases.push_back({.for_s = static_cast<double>(1 + below(50)) * 1e-9,
                        .bandwidth = static_cast<double>(1 + below(20))});
    }
    const auto nominal = static_cast<double>(1 + below(20));
    const BandwidthTrace trace(nominal, phases);
    const Nanoseconds start = below(300);
    const Nanoseconds duration = below(400);
    const Nanoseconds end = trace.end_of(start, duration);
    ASSERT_EQ(end, end_by_steps(nominal, phases, start, duration)) << round;
    EXPECT_GE(end - start, trace.least(duration));
  }
}

TEST(BandwidthTrace, HoldsAtTheEndsOfItsRange) {
  const BandwidthTrace trace(1e15, {{3600.0, 1000.0}, {1e-6, 1e15}});
  const Nanoseconds hour = 3600LL * 1000000000;
  const Nanoseconds short_one = 1000000;  // 1,000 periods
  EXPECT_EQ(trace.end_of(0, short_one), trace.end_of(0, short_one - 1) + 1);
  EXPECT_THROW(trace.end_of(0, hour), Error);
  EXPECT_THROW(BandwidthTrace(0.5, {}), Error);
  EXPECT_THROW(BandwidthTrace(1.0, {{1e-10, 1.0}}), Error);
}

}  // namespace
}  // namespace hidup
