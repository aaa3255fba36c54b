// A profile's times from those that all ranks measured.
#include "runtime/profiler.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "fake_ranks/fake_ranks.h"

namespace hidup {
namespace {

OperationTime time_of(Opcode opcode, std::vector<int64_t> sizes, double seconds,
                      DType dtype = DType::f32) {
  return {opcode, {.sizes = std::move(sizes), .dtype = dtype}, seconds};
}

// Ranks may have parts of other sizes, and so other operations.
TEST(Profiler, ASlowRankCountsOnRankZero) {
  const std::vector<std::vector<OperationTime>> measured = {
      {time_of(Opcode::add, {4, 8}, 1.0), time_of(Opcode::add, {4, 9}, 2.5e-5),
       time_of(Opcode::matmul, {4, 8}, 3.0), time_of(Opcode::matmul, {4, 8}, 4.0, DType::bf16)},
      {time_of(Opcode::add, {4, 8}, 1.5), time_of(Opcode::add, {48}, 9.0)},
      {time_of(Opcode::add, {4, 8}, 1.25), time_of(Opcode::matmul, {4, 8}, 3.5),
       time_of(Opcode::add, {4, 9}, 1e-5)}};
  run_ranks(3, [&](Communicator& world) {
    std::vector<OperationTime> times = measured[static_cast<size_t>(world.rank())];
    take_slowest(world, {}, times);
    std::vector<double> seconds;
    for (const OperationTime& time : times) {
      seconds.push_back(time.seconds);
    }
    if (world.rank() == 0) {
      EXPECT_EQ(seconds, (std::vector<double>{1.5, 2.5e-5, 3.5, 4.0}));
    } else {
      EXPECT_EQ(seconds[0], measured[static_cast<size_t>(world.rank())][0].seconds);
    }
  });
}

// Ranks 0 and 2 are of one class.
TEST(Profiler, EveryClassHasItsSlowestRank) {
  run_ranks(3, [&](Communicator& world) {
    const double rank = world.rank();
    std::vector<OperationTime> times = {time_of(Opcode::add, {4}, 3.0 - rank)};
    if (world.rank() != 1) {
      times.push_back(time_of(Opcode::matmul, {4}, 1.0 + rank));
    }
    take_slowest(world, {0, 1, 0}, times);
    if (world.rank() == 0) {
      EXPECT_EQ(times[0].seconds, 3.0);
      EXPECT_EQ(times[0].by_class, (std::vector<double>{3.0, 2.0}));
      EXPECT_EQ(times[1].seconds, 3.0);
      EXPECT_EQ(times[1].by_class, (std::vector<double>{3.0, 0.0}));
    }
  });
}

// All ranks compute the first product, some ranks the others. An algorithm that is only a little
// faster than the first is not chosen.
TEST(Profiler, AllRanksTakeTheAlgorithmThatIsFastestOnTheSlowest) {
  const std::vector<std::vector<kernels::AlgorithmTimes>> measured = {
      {{{1, 2}, {5.0, 1.0, 3.0}}, {{3}, {1.0, 2.0}}},
      {{{1, 2}, {5.0, 4.0, 2.0}}, {{4}, {1e-5, 1.1e-5, 2.5e-6}}},
      {{{1, 2}, {5.0, 1.0, 1.0}}, {{5}, {1.0, 0.99}}}};
  run_ranks(3, [&](Communicator& world) {
    const std::map<std::vector<int64_t>, int> fastest =
        fastest_algorithms(world, measured[static_cast<size_t>(world.rank())]);
    if (world.rank() == 0) {
      EXPECT_EQ(fastest, (std::map<std::vector<int64_t>, int>{{{1, 2}, 2}, {{4}, 2}}));
    }
  });
}

OperationTime product(std::vector<int64_t> sizes, double seconds, Opcode opcode = Opcode::matmul,
                      DType dtype = DType::f32) {
  double flops = 2.0;
  for (const int64_t size : sizes) {
    flops *= static_cast<double>(size);
  }
  return {opcode, {.flops = flops, .sizes = std::move(sizes), .dtype = dtype}, seconds};
}

std::string text_of(const ComputeLoad& load) {
  return fmt::format("{} {}x{}x{}", name_of(load.dtype), load.rows, load.summed, load.columns);
}

TEST(Profiler, TheLoadIsTheHeaviestProductThatIsNotLong) {
  std::vector<OperationTime> times = {
      product({64, 32, 16}, 2e-5), product({64, 32, 48}, 1e-6, Opcode::matmul_backward_weight),
      time_of(Opcode::add, {4096, 4096}, 1e-4), product({640, 320, 480}, 2e-3)};
  EXPECT_EQ(text_of(heaviest_load(times)), "f32 64x32x48");
  times.push_back(product({4, 30, 32, 50}, 5e-5, Opcode::expert_matmul, DType::bf16));
  EXPECT_EQ(text_of(heaviest_load(times)), "bf16 120x32x50");
}

TEST(Profiler, TheLoadHasFewerRowsWhereAllProductsAreLong) {
  EXPECT_EQ(text_of(heaviest_load({product({640, 320, 480}, 4e-3), product({64, 32, 48}, 2e-3)})),
            "f32 32x32x48");
  EXPECT_EQ(text_of(heaviest_load({product({1, 32, 48}, 1.0)})), "f32 1x32x48");
}

TEST(Profiler, TheLoadOfNoProductsIsASmallOne) {
  EXPECT_EQ(text_of(heaviest_load({time_of(Opcode::add, {8, 8}, 1.0)})), "f32 128x256x128");
}

}  // namespace
}  // namespace hidup
