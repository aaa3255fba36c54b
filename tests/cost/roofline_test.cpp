#include "cost/roofline.h"

#include <gtest/gtest.h>

#include "cost/cost_model.h"

namespace hidup {
namespace {

const Mesh kMesh = {{"node", 1}, {"gpu", 8}};
const MachineRates kRates = {
    .flops = 1e12, .memory_bandwidth = 1e11, .links = {{0.0, 0.0}, {1e9, 1e-5}}};

double seconds(const CostModel& costs, Opcode opcode, double bytes) {
  return costs.collective(opcode, 1, bytes).alone_s;
}

TEST(Roofline, ProductsRunAtThePeakTheRestAtTheMemorysRate) {
  const CostModel costs(roofline_profile(kMesh, kRates));
  const Work work{.flops = 3e9, .bytes = 5e6, .sizes = {64, 128, 256}};
  for (const Opcode product : {Opcode::matmul, Opcode::expert_matmul, Opcode::attention}) {
    EXPECT_NEAR(costs.operation(product, work), 3e-3, 1e-12);
  }
  for (const Opcode other : {Opcode::add, Opcode::layer_norm, Opcode::adam, Opcode::slice}) {
    EXPECT_NEAR(costs.operation(other, work), 5e-5, 1e-14);
  }
}

// Each of 8 ranks sends 7/8 of the bytes; messages are three deep.
TEST(Roofline, CollectivesTakeLatencyAndBandwidth) {
  const CostModel costs(roofline_profile(kMesh, kRates));
  for (const double bytes : {100.0, 3e4, 1e6, 7.7e8, 5e12}) {
    const double part = 7.0 / 8.0 * bytes / 1e9;
    EXPECT_NEAR(seconds(costs, Opcode::all_gather, bytes) / (3e-5 + part), 1.0, 5e-3);
    EXPECT_NEAR(seconds(costs, Opcode::reduce_scatter, bytes) / (3e-5 + part), 1.0, 5e-3);
    EXPECT_NEAR(seconds(costs, Opcode::all_to_all, bytes) / (3e-5 + part), 1.0, 5e-3);
    EXPECT_NEAR(seconds(costs, Opcode::all_reduce, bytes) / (6e-5 + 2.0 * part), 1.0, 5e-3);
    EXPECT_NEAR(seconds(costs, Opcode::broadcast, bytes) / (3e-5 + bytes / 1e9), 1.0, 5e-3);
  }
  EXPECT_EQ(costs.collective(Opcode::all_reduce, 0, 1e6).alone_s, 0.0) << "an axis of one rank";
}

// Returns costs of 8 ranks on one axis, four on each of two hosts.
CostModel costs_of_hosts(double bandwidth, double host_bandwidth, int64_t per_host = 4) {
  MachineRates rates = kRates;
  rates.links[1] = {.bandwidth = bandwidth,
                    .latency_s = 1e-5,
                    .per_host = per_host,
                    .host_bandwidth = host_bandwidth};
  return CostModel(roofline_profile(kMesh, rates));
}

constexpr double kGB = 1e9;

void expect_seconds(const CostModel& costs, Opcode opcode, double bytes, double expected) {
  EXPECT_NEAR(seconds(costs, opcode, bytes) / expected, 1.0, 5e-3) << name_of(opcode);
}

// A ring passes the host's link once with a rank's bytes. An all-to-all passes it with all bytes of
// four ranks for the four others, 4 x 4/8 of a rank's; a move with 4 x 1.
TEST(Roofline, AHostsLinkIsPassedOnceByRingsAndByAllRanksOfAnAllToAll) {
  const CostModel costs = costs_of_hosts(100.0 * kGB, 1.0 * kGB);
  for (const double bytes : {1e4, 1e6, 7.7e8, 5e12}) {
    expect_seconds(costs, Opcode::all_gather, bytes, 3e-5 + 0.875 * bytes / kGB);
    expect_seconds(costs, Opcode::reduce_scatter, bytes, 3e-5 + 0.875 * bytes / kGB);
    expect_seconds(costs, Opcode::all_reduce, bytes, 6e-5 + 1.75 * bytes / kGB);
    expect_seconds(costs, Opcode::broadcast, bytes, 3e-5 + bytes / kGB);
    expect_seconds(costs, Opcode::all_to_all, bytes, 3e-5 + 2.0 * bytes / kGB);
    expect_seconds(costs, Opcode::move, bytes, 1e-5 + 4.0 * bytes / kGB);
  }
}

// A rank of an all-to-all has 3/8 of its bytes for the three others of its host.
TEST(Roofline, ARanksLinkCountsWhereItIsSlower) {
  const CostModel costs = costs_of_hosts(1.0 * kGB, 10.0 * kGB);
  expect_seconds(costs, Opcode::all_gather, 1e9, 0.875);
  expect_seconds(costs, Opcode::all_reduce, 1e9, 1.75);
  expect_seconds(costs, Opcode::broadcast, 1e9, 1.0);
  expect_seconds(costs, Opcode::all_to_all, 1e9, 0.375);
  expect_seconds(costs, Opcode::move, 1e9, 1.0);
}

TEST(Roofline, RanksOfOneHostDoNotPassItsLink) {
  const CostModel costs = costs_of_hosts(1.0 * kGB, 1e-3 * kGB, 8);
  expect_seconds(costs, Opcode::all_reduce, 1e9, 1.75);
  expect_seconds(costs, Opcode::all_to_all, 1e9, 0.875);
  expect_seconds(costs, Opcode::move, 1e9, 1.0);
}

TEST(Roofline, PublishedModelTakesTheSlowerLink) {
  MachineRates rates = kRates;
  rates.links[1] = {.bandwidth = 10.0 * kGB, .per_host = 4, .host_bandwidth = 2.0 * kGB};
  expect_seconds(CostModel(published_profile(kMesh, rates)), Opcode::all_to_all, 1e9, 0.5001);
  rates.links[1].per_host = 8;
  expect_seconds(CostModel(published_profile(kMesh, rates)), Opcode::all_to_all, 1e9, 0.1001);
}

TEST(Roofline, PublishedModelHasBandwidthAndATenthOfAMillisecond) {
  const CostModel costs(published_profile(kMesh, kRates));
  const Work work{.flops = 3e9, .bytes = 5e6, .sizes = {64, 128, 256}};
  EXPECT_NEAR(costs.operation(Opcode::matmul, work), 3e-3, 1e-12);
  EXPECT_NEAR(costs.operation(Opcode::add, work), 0.0, 1e-12);
  for (const Opcode opcode : {Opcode::all_reduce, Opcode::all_to_all, Opcode::all_gather}) {
    EXPECT_NEAR(seconds(costs, opcode, 1e6), 1e-3 + 1e-4, 1e-5);
  }
}

TEST(Roofline, NoiseStaysWithinItsPartAndFollowsTheSeed) {
  const auto all_reduce = [](double noise, uint64_t seed) {
    Profile profile = roofline_profile(kMesh, kRates);
    perturb(profile, noise, seed);
    return seconds(CostModel(profile), Opcode::all_reduce, 1e8);
  };
  const double exact = all_reduce(0.0, 1);
  EXPECT_NEAR(exact / (6e-5 + 2.0 * 7.0 / 8.0 * 0.1), 1.0, 5e-3);
  double least = 1.0;
  double most = 1.0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const double part = all_reduce(0.3, seed) / exact;
    EXPECT_EQ(part, all_reduce(0.3, seed) / exact);
    least = std::min(least, part);
    most = std::max(most, part);
  }
  EXPECT_NEAR(least, 0.7, 0.02);
  EXPECT_NEAR(most, 1.3, 0.02);
}

}  // namespace
}  // namespace hidup
