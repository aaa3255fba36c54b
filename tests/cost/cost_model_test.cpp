#include "cost/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check.h"

namespace hidup {
namespace {

Work product(int64_t m, int64_t k, int64_t n) {
  return {.flops = 2.0 * static_cast<double>(m * k * n), .bytes = 1.0, .sizes = {m, k, n}};
}

Work stream_of(int64_t rows, int64_t columns) {
  return {.bytes = 8.0 * static_cast<double>(rows * columns), .sizes = {rows, columns}};
}

// Products of 64 rows run at 1 Gflop/s, of 1,024 at 4.
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

// Each element type has times of its own; where there are none, those of another count.
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

// Values 0 and 1: a whole tensor of 100 floats, and a part of it by the placement.
double paced(Opcode opcode, int64_t ranks, Placement placement, int64_t rank) {
  const Program program{
      .mesh = {{"ranks", ranks}},
      .values = {{.shape = {100},
                  .layout = {opcode == Opcode::reduce_scatter ? Placement::partial()
                                                              : Placement::replicate()}},
                 {.shape = {100}, .layout = {placement}}}};
  const bool gathers = opcode == Opcode::all_gather;
  return paced_bytes(
      program,
      {.opcode = opcode, .axis = 0, .inputs = {gathers ? 1 : 0}, .outputs = {gathers ? 0 : 1}},
      rank);
}

TEST(PacedBytes, OfEqualPartsAreThoseOfTheWhole) {
  for (const Opcode opcode : {Opcode::all_gather, Opcode::reduce_scatter}) {
    EXPECT_EQ(paced(opcode, 4, Placement::shard(0), 0), 400.0);
    EXPECT_EQ(paced(opcode, 4, Placement::shard(0), 3), 400.0);
  }
}

// All of it passes through one link, where of equal parts each passes through another.
TEST(PacedBytes, OfUnequalPartsAreThoseOfTheLargest) {
  for (const Opcode opcode : {Opcode::all_gather, Opcode::reduce_scatter}) {
    EXPECT_EQ(paced(opcode, 2, Placement::on_first_rank(), 0), 800.0);
    EXPECT_EQ(paced(opcode, 3, Placement::shard(0), 0), 408.0);  // 34 of 100
  }
}

TEST(CostModel, BetweenSamplesThePaceIsBetweenTheirs) {
  const CostModel costs(sample());
  const Work work = product(256, 128, 128);  // as far from both, on a logarithmic scale
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

// In profiles of operations that were not fused.
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

}  // namespace
}  // namespace hidup
