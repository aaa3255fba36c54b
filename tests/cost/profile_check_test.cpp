// Checks of a profile against the machine: the choice of messages, and the deviations that count.
#include "cost/profile_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hidup {
namespace {

constexpr double kLook = 0.04;    // seconds
constexpr double kLargest = 1e9;  // bytes

// Returns all_reduces along each axis, from 64 bytes up by factors of four.
Profile profile_of(const Mesh& mesh, double latency_s, double bandwidth, double largest = 1 << 20) {
  Profile profile{.key = {.mesh = mesh},
                  .operations = {{Opcode::matmul, {.flops = 2e6, .bytes = 3e4}, 1e-3}}};
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    if (mesh[axis].size == 1) {
      continue;
    }
    CollectiveTimes times{.opcode = Opcode::all_reduce, .axis = axis};
    for (double bytes = 64; bytes <= largest; bytes *= 4) {
      const double seconds = latency_s + bytes / bandwidth;
      times.table.push_back({.bytes = bytes, .alone_s = seconds, .beside_s = seconds});
    }
    profile.collectives.push_back(times);
  }
  return profile;
}

double seconds_of(const std::vector<Probe>& probes) {
  double seconds = 0.0;
  for (const Probe& probe : probes) {
    seconds += probe.alone_s * probe.rows * (1 + probe.repetitions);
  }
  return seconds;
}

TEST(ProfileCheck, LooksAtASmallAndALargeMessagePerAxis) {
  const Profile profile = profile_of({{"node", 2}, {"unused", 1}, {"core", 4}}, 1e-5, 1e10);
  const std::vector<Probe> probes = probes_of(profile, kLook, kLargest);
  ASSERT_EQ(probes.size(), 4U);
  EXPECT_EQ(probes[0].axis, 0U);
  EXPECT_EQ(probes[2].axis, 2U);
  for (const size_t i : {0, 2}) {
    EXPECT_EQ(probes[i].bytes, 64);
    EXPECT_EQ(probes[i + 1].bytes, 1 << 20);
    EXPECT_EQ(probes[i + 1].axis, probes[i].axis);
    EXPECT_DOUBLE_EQ(probes[i + 1].alone_s, 1e-5 + (1 << 20) / 1e10);
  }
  EXPECT_TRUE(probes_of(profile_of({{"ranks", 1}}, 1e-5, 1e10), kLook, kLargest).empty());
}

// A look needs few repetitions, at least two, of the smallest messages that suffice.
TEST(ProfileCheck, ALookIsShort) {
  for (const size_t axes : {1, 2, 3}) {
    for (const double bandwidth : {1e6, 12.5e6, 25e6, 250e6, 1e10}) {
      const Mesh mesh(axes, Axis{"axis", 2});
      const std::vector<Probe> probes =
          probes_of(profile_of(mesh, 1e-4, bandwidth), kLook, kLargest);
      EXPECT_EQ(probes.size(), 2 * axes) << bandwidth;
      EXPECT_LE(seconds_of(probes), kLook * 1.001) << axes << " " << bandwidth;
      for (const Probe& probe : probes) {
        EXPECT_GE(probe.repetitions, 2);
        EXPECT_GE(probe.rows, 1);
      }
    }
  }
  // At 200 Mbit/s, 256 KiB in 10.5 ms is far more than passes at once after a pause.
  EXPECT_EQ(probes_of(profile_of({{"node", 2}}, 1e-4, 25e6), kLook, kLargest)[1].bytes, 1 << 18);
}

// The limit holds, too, where a profile has messages that do not fit in memory.
TEST(ProfileCheck, NoMessageIsLargerThanItMayBe) {
  Profile profile = profile_of({{"node", 2}, {"core", 2}}, 1e-5, 1e10);
  for (MessageTime& row : profile.collectives[1].table) {
    row.bytes *= 1e15;
  }
  const std::vector<Probe> probes = probes_of(profile, kLook, 5000);
  ASSERT_EQ(probes.size(), 2U);
  EXPECT_EQ(probes[0].axis, 0U);
  EXPECT_EQ(probes[1].axis, 0U);
  EXPECT_EQ(probes[1].bytes, 4096);
}

TEST(ProfileCheck, OffByMoreThanTheTolerance) {
  const Tolerance tolerance{.part = 0.2};
  const Probe probe{.alone_s = 1e-3};
  EXPECT_FALSE(is_off(probe, {1e-3, 1e-3}, tolerance));
  EXPECT_FALSE(is_off(probe, {1.19e-3, 1.19e-3}, tolerance));
  EXPECT_TRUE(is_off(probe, {1.21e-3, 1.21e-3}, tolerance));
  EXPECT_FALSE(is_off(probe, {0.84e-3, 0.84e-3}, tolerance));
  EXPECT_TRUE(is_off(probe, {0.82e-3, 0.82e-3}, tolerance));
}

TEST(ProfileCheck, OtherWorkOnTheMachineDoesNotCount) {
  const Tolerance tolerance{.part = 0.2};
  const Probe probe{.alone_s = 1e-3};
  EXPECT_FALSE(is_off(probe, {1.1e-3, 9e-3}, tolerance));  // most rows were disturbed, one was not
  EXPECT_FALSE(is_off(probe, {0.1e-3, 1e-3}, tolerance));  // one row was quicker than the others
}

// A message of 60 us that waits for a sleeping thread takes twice as long without any fault.
TEST(ProfileCheck, ShortMessagesMayBeLate) {
  const Tolerance tolerance{.part = 0.2, .seconds = 1e-4};
  EXPECT_FALSE(is_off({.alone_s = 60e-6}, {120e-6, 130e-6}, tolerance));
  EXPECT_FALSE(is_off({.alone_s = 60e-6}, {1e-6, 1e-6}, tolerance));
  EXPECT_TRUE(is_off({.alone_s = 60e-6}, {2e-3, 2e-3}, tolerance));
  EXPECT_TRUE(is_off({.alone_s = 2e-3}, {60e-6, 60e-6}, tolerance));
}

TEST(ProfileCheck, SaysWhatIsOff) {
  const Probe probe{.axis = 1, .bytes = 1 << 18, .alone_s = 10.5e-3};
  EXPECT_EQ(describe(probe, {1.0e-3, 1.1e-3}, {{"node", 2}, {"core", 2}}),
            "all_reduce of 256.00 KiB along core takes 1.10 ms, not 10.50 ms");
}

TEST(ProfileCheck, NumbersThatNoMachineHas) {
  const Mesh mesh = {{"node", 2}, {"core", 2}};
  const Profile good = profile_of(mesh, 1e-5, 1e10);
  EXPECT_EQ(implausible_number(good), "");
  const auto found = [&](auto change) {
    Profile profile = good;
    change(profile);
    return implausible_number(profile);
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(found([](Profile& p) { p.operations[0].seconds = 1e-12; }), "matmul at 2e+18 flop/s");
  EXPECT_EQ(found([](Profile& p) { p.operations[0].work = {.bytes = 1e20}; }),
            "matmul at 1e+23 B/s");
  EXPECT_EQ(found([](Profile& p) { p.operations[0].seconds = -1.0; }), "matmul in -1 s");
  EXPECT_EQ(found([](Profile& p) { p.operations[0].seconds = 1e5; }), "matmul in 1e+05 s");
  EXPECT_EQ(found([](Profile& p) { p.operations[0].seconds = std::nan(""); }), "matmul in nan s");
  EXPECT_EQ(found([](Profile& p) { p.overhead_s = 1e9; }), "overhead_s of 1e+09 s");
  EXPECT_EQ(found([](Profile& p) {
              p.rates = {.products = {{DType::f32, 1e18}}, .memory = 1e10};
            }),
            "products of f32 at 1e+18 flop/s");
  EXPECT_EQ(found([](Profile& p) {
              p.rates = {.products = {{DType::f32, 1e12}}, .memory = 1e16};
            }),
            "memory at 1e+16 B/s");
  EXPECT_EQ(found([](Profile& p) { p.collectives[1].table[0].alone_s = 1e-16; }),
            "all_reduce of 64 bytes along core in 1e-16 s");
  EXPECT_EQ(found([](Profile& p) { p.collectives[1].table[0].beside_s = kInfinity; }),
            "all_reduce of 64 bytes along core in inf s");
  EXPECT_EQ(found([](Profile& p) { p.collectives[1].axis = 2; }),
            "all_reduce along an axis 2 of 2, with 8 time(s)");
  EXPECT_EQ(found([](Profile& p) { p.collectives.pop_back(); }), "no all_reduce along core");
}

}  // namespace
}  // namespace hidup
