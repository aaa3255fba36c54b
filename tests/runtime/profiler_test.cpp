// What a profile takes of the times that all ranks measured.
#include "runtime/profiler.h"

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
    take_slowest(world, times);
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

}  // namespace
}  // namespace hidup
