#include "cost/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check.h"
#include "cost/roofline.h"

namespace hidup {
namespace {

Work product(int64_t m, int64_t k, int64_t n) {
  return {.flops = 2.0 * static_cast<double>(m * k * n), .bytes = 1.0, .sizes = {m, k, n}};
}

Work stream_of(int64_t rows, int64_t columns) {
  return {.bytes = 8.0 * static_cast<double>(rows * columns), .sizes = {rows, columns}};
}

// Returns a profile whose products of 64 rows run at 1 Gflop/s, and of 1,024 rows at 4.
Profile sample() {
  Profile profile;
  for (const auto& [rows, rate] : {std::pair{64, 1e9}, std::pair{1024, 4e9}}) {
    const Work work = product(rows, 128, 128);
    profile.operations.push_back({Opcode::matmul, work, work.flops / rate});
  }
  const Work relu = stream_of(256, 128);
  profile.operations.push_back({Opcode::relu, relu, relu.bytes / 1e10});
  profile.collectives.push_back({.opcode = Opcode::all_to_all,
                                 .axis = 1,
                                 .table = {{1e3, 1e-4, 2e-4, 1.5}, {1e5, 1e-2, 4e-2, 2.5}}});
  return profile;
}

TEST(CostModel, GivesWhatWasMeasured) {
  const CostModel costs(sample());
  const Work work = product(64, 128, 128);
  EXPECT_NEAR(costs.operation(Opcode::matmul, work), work.flops / 1e9, 1e-4 * work.flops / 1e9);
  EXPECT_NEAR(costs.collective(Opcode::all_to_all, 1, 1e5).alone_s, 1e-2, 1e-9);
}

// Each element type has its own times; a type without times uses another type's.
TEST(CostModel, KeepsElementTypesApart) {
  Profile profile = sample();
  Work work = product(64, 128, 128);
  work.dtype = DType::bf16;
  EXPECT_NEAR(CostModel(profile).operation(Opcode::matmul, work), work.flops / 1e9,
              1e-4 * work.flops / 1e9);
  profile.operations.push_back({Opcode::matmul, work, work.flops / 8e9});
  const CostModel costs(profile);
  EXPECT_NEAR(costs.operation(Opcode::matmul, work), work.flops / 8e9, 1e-4 * work.flops / 8e9);
  EXPECT_NEAR(costs.operation(Opcode::matmul, product(64, 128, 128)), work.flops / 1e9,
              1e-4 * work.flops / 1e9);
}

TEST(CostModel, BetweenSamplesThePaceIsBetweenTheirs) {
  const CostModel costs(sample());
  const Work work = product(256, 128, 128);  // in the middle on a logarithmic scale
  EXPECT_NEAR(costs.operation(Opcode::matmul, work), work.flops / 2e9, 1e-6 * work.flops / 2e9);
}

TEST(CostModel, BeyondTheSamplesTimeGrowsWithTheWork) {
  const CostModel costs(sample());
  const Work once = stream_of(4096, 128);
  const Work twice = stream_of(8192, 128);
  EXPECT_NEAR(costs.operation(Opcode::relu, twice), 2.0 * costs.operation(Opcode::relu, once),
              1e-12);
  const MessageTime longer = costs.collective(Opcode::all_to_all, 1, 1e6);
  EXPECT_NEAR(longer.alone_s, 1e-1, 1e-9);
  EXPECT_NEAR(longer.beside_s, 4e-1, 1e-9);
  EXPECT_DOUBLE_EQ(longer.slowdown, 2.5);
}

TEST(CostModel, MessagesLieOnStraightLinesOfLogarithms) {
  const MessageTime middle = CostModel(sample()).collective(Opcode::all_to_all, 1, 1e4);
  EXPECT_NEAR(middle.alone_s, 1e-3, 1e-9);
  EXPECT_NEAR(middle.slowdown, std::sqrt(1.5 * 2.5), 1e-9);
}

TEST(CostModel, NothingTakesNoTime) {
  const CostModel costs(sample());
  EXPECT_EQ(costs.operation(Opcode::matmul, product(0, 128, 128)), 0.0);
  EXPECT_EQ(costs.collective(Opcode::all_to_all, 0, 1e4).alone_s, 0.0);  // not timed on that axis
}

// Profiles of unfused operations lack the fused product's times.
TEST(CostModel, TheProductStandsInForOneWithItsBias) {
  Profile profile = sample();
  Work work = product(64, 128, 128);
  work.dtype = DType::bf16;
  profile.operations.push_back({Opcode::matmul, work, work.flops / 8e9});
  CostModel costs(profile);
  const auto fused = {Opcode::matmul_bias, Opcode::matmul_bias_relu, Opcode::matmul_bias_gelu};
  for (const Opcode opcode : fused) {
    EXPECT_EQ(costs.operation(opcode, work), costs.operation(Opcode::matmul, work));
  }
  profile.operations.push_back({Opcode::matmul_bias_gelu, work, work.flops / 5e9});
  costs = CostModel(profile);
  EXPECT_NEAR(costs.operation(Opcode::matmul_bias_gelu, work), work.flops / 5e9,
              1e-4 * work.flops / 5e9);
}

TEST(CostModel, AnotherOperationOfItsKindStandsIn) {
  const CostModel costs(sample());
  const Work work = stream_of(256, 128);
  EXPECT_DOUBLE_EQ(costs.operation(Opcode::dropout, work), costs.operation(Opcode::relu, work));
}

TEST(CostModel, NeedsOperations) {
  EXPECT_THROW(CostModel(Profile{}), Error);
}

// A ring of n ranks sends (n - 1) / n of the bytes, for a sum twice.
TEST(CostModel, HierarchicalMessagesTakeTheirTimesOneAfterTheOther) {
  const Mesh mesh = {{"pod", 2}, {"node", 4}, {"gpu", 8}};
  const CostModel costs(roofline_profile(
      mesh, {.flops = 1e12,
             .memory_bandwidth = 1e12,
             .links = {{.bandwidth = 1e8}, {.bandwidth = 1e9}, {.bandwidth = 1e11}}}));
  const Instruction sum{.opcode = Opcode::all_reduce, .axis = 1, .inner_axes = {2}};
  const double bytes = 8e9;
  const double inside = 2.0 * 7.0 / 8.0 * bytes / 1e11;
  const double outside = 2.0 * 3.0 / 4.0 * bytes / 8.0 / 1e9;
  EXPECT_NEAR(costs.message(mesh, sum, bytes).alone_s / (inside + outside), 1.0, 0.005);
}

// A ring of 32 ranks sends 31/32 of the bytes, for a sum twice; along node it uses the links of 8
// ranks, or of one.
TEST(CostModel, FlatSumsTakeTheLongestOfTheirPartsAndAllLatencies) {
  const Mesh mesh = {{"node", 4}, {"gpu", 8}};
  const auto seconds = [&](double inside, double outside, double bytes, bool all_links) {
    Profile profile = roofline_profile(mesh, {.flops = 1e12,
                                              .memory_bandwidth = 1e12,
                                              .links = {{.bandwidth = outside, .latency_s = 2e-3},
                                                        {.bandwidth = inside, .latency_s = 1e-3}}});
    profile.rings_use_all_links = all_links;
    const Instruction sum{.opcode = Opcode::all_reduce, .axis = 0, .inner_axes = {1}, .flat = true};
    return CostModel(profile).message(mesh, sum, bytes).alone_s;
  };
  const double latency = 4 * 2e-3 + 6 * 1e-3;
  const double sent = 2.0 * 31.0 / 32.0 * 1e9;
  EXPECT_NEAR(seconds(1e11, 1e9, 1e9, true) / (sent / 8.0 / 1e9 + latency), 1.0, 0.005);
  EXPECT_NEAR(seconds(1e11, 1e9, 1e9, false) / (sent / 1e9 + latency), 1.0, 0.005);
  EXPECT_NEAR(seconds(1e9, 1e9, 1e9, true) / (sent / 1e9 + latency), 1.0, 0.005);
  EXPECT_NEAR(seconds(1e9, 1e9, 1.0, true) / latency, 1.0, 0.005);
}

// The time that a message takes on its link is counted from these parts.
TEST(CostModel, OnlyTheLongestOfPartsThatRunAtOnceHasBytes) {
  const Mesh mesh = {{"node", 4}, {"gpu", 8}};
  const CostModel costs(roofline_profile(mesh, {.flops = 1e12,
                                                .memory_bandwidth = 1e12,
                                                .links = {{.bandwidth = 1e12, .latency_s = 1e-3},
                                                          {.bandwidth = 1e9, .latency_s = 0}}}));
  const Instruction sum{.opcode = Opcode::all_reduce, .axis = 0, .inner_axes = {1}, .flat = true};
  const std::vector<MessagePart> parts = costs.timed_parts(mesh, sum, 1e9);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].bytes, 0.0) << "along node, whose links are faster";
  EXPECT_GT(parts[1].bytes, 1e9);
  Instruction hierarchical = sum;
  hierarchical.flat = false;
  for (const MessagePart& part : costs.timed_parts(mesh, hierarchical, 1e9)) {
    EXPECT_GT(part.bytes, 0.0);
  }
}

// The faster of two algorithms is chosen, from the middle between two sizes on.
TEST(CostModel, ChoosesAlgorithmsBySize) {
  Profile profile = sample();
  const auto add = [&](CollectiveAlgorithm algorithm, std::vector<double> seconds) {
    CollectiveTimes times{.opcode = Opcode::all_reduce, .axis = 1, .algorithm = algorithm};
    double bytes = 100.0;
    for (const double s : seconds) {
      times.table.push_back({bytes, s, 2.0 * s, 1.0});
      bytes *= 100.0;
    }
    profile.collectives.push_back(times);
  };
  using enum CollectiveAlgorithm;
  add(automatic, {1.0, 2.0, 9.0});
  add(windows, {0.95, 1.0, 8.0});
  EXPECT_EQ(CostModel(sample()).algorithms(), std::vector<AlgorithmChoice>());
  const std::vector<AlgorithmChoice> from_10_4 = {{ReshardKind::all_reduce, 1, 1e3, windows}};
  EXPECT_EQ(CostModel(profile).algorithms(), from_10_4) << "what is little faster is not taken";
  add(ring, {5.0, 3.0, 1.0});
  const CostModel costs(profile);
  const std::vector<AlgorithmChoice> two = {{ReshardKind::all_reduce, 1, 1e3, windows},
                                            {ReshardKind::all_reduce, 1, 1e5, ring}};
  EXPECT_EQ(costs.algorithms(), two);
  EXPECT_NEAR(costs.collective(Opcode::all_reduce, 1, 1e6).alone_s, 9.0, 1e-9);
  EXPECT_NEAR(costs.collective(Opcode::all_reduce, 1, 1e6, ring).alone_s, 1.0, 1e-9);
  EXPECT_NEAR(costs.collective(Opcode::all_reduce, 1, 1e6, tree).alone_s, 9.0, 1e-9) << "not timed";
  EXPECT_EQ(costs.collective(Opcode::all_gather, 1, 1e6).alone_s, 0.0);
}

}  // namespace
}  // namespace hidup
