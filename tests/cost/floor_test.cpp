// The least time of a step, at rates that make it easy to see.
#include "cost/floor.h"

#include <gtest/gtest.h>

namespace hidup {
namespace {

constexpr double kProduct = 1e9;
constexpr double kMemory = 1e6;

// A program of one rank, or of two, which have 3 and 2 of 5 rows.
class Step {
 public:
  explicit Step(int64_t ranks) { program_.mesh = {{"ranks", ranks}}; }

  ValueId value(Shape shape, Placement placement, DType dtype = DType::f32) {
    program_.values.push_back(
        {.name = "x", .dtype = dtype, .shape = std::move(shape), .layout = {placement}});
    return static_cast<ValueId>(program_.values.size() - 1);
  }
  void add(Opcode opcode, std::vector<ValueId> inputs, ValueId output) {
    program_.instructions.push_back({.opcode = opcode,
                                     .name = "i",
                                     .axis = collective_of(opcode).empty() ? -1 : 0,
                                     .inputs = std::move(inputs),
                                     .outputs = {output}});
    if (opcode == Opcode::matmul) {
      program_.instructions.back().attributes = MatmulAttributes{};
    }
  }
  std::optional<StepFloor> floor(const DeviceRates& rates, int64_t rank = 0,
                                 DType dtype = DType::f32) const {
    return step_floor(program_, rank, rates, dtype);
  }

 private:
  Program program_;
};

const DeviceRates kDevice = {.products = {{DType::f32, kProduct}}, .memory = kMemory};

// Products take the longer of flops and bytes, other operations their bytes; messages do not count.
TEST(Floor, IsTheSumOfWhatARankComputesAndCopies) {
  Step step(2);
  const ValueId x = step.value({5, 400}, Placement::shard(0));
  const ValueId w = step.value({400, 300}, Placement::replicate());
  const ValueId y = step.value({5, 300}, Placement::shard(0));
  step.add(Opcode::matmul, {x, w}, y);
  step.add(Opcode::relu, {y}, y);
  step.add(Opcode::relu, {y}, y);
  step.add(Opcode::all_reduce, {w}, w);
  for (const auto& [rank, rows] : {std::pair(0, 3.0), std::pair(1, 2.0)}) {
    const double product = 4.0 * (rows * 400 + 400 * 300 + rows * 300) / kMemory;
    const double relu = 4.0 * 2 * rows * 300 / kMemory;
    const std::optional<StepFloor> floor = step.floor(kDevice, rank);
    ASSERT_TRUE(floor);
    EXPECT_NEAR(floor->seconds, product + 2 * relu, 1e-9);
    EXPECT_EQ(floor->product, kProduct);
    EXPECT_EQ(floor->memory, kMemory);
    const std::optional<StepFloor> slow =
        step.floor({.products = {{DType::f32, 1e3}}, .memory = kMemory}, rank);
    ASSERT_TRUE(slow);
    EXPECT_NEAR(slow->seconds, 2 * rows * 400 * 300 / 1e3 + 2 * relu, 1e-6);
  }
}

TEST(Floor, LocalCopiesCountByTheirBytes) {
  Step step(2);
  const ValueId whole = step.value({4, 100}, Placement::replicate());
  const ValueId part = step.value({4, 100}, Placement::shard(0));
  step.add(Opcode::slice, {whole}, part);
  const std::optional<StepFloor> floor = step.floor(kDevice);
  ASSERT_TRUE(floor);
  EXPECT_NEAR(floor->seconds, 4.0 * (400 + 200) / kMemory, 1e-9);
}

TEST(Floor, OfProductsOfATypeWithoutARateIsNone) {
  Step step(1);
  const ValueId x = step.value({8, 8}, Placement::replicate(), DType::bf16);
  step.add(Opcode::relu, {x}, x);
  EXPECT_TRUE(step.floor(kDevice));
  EXPECT_FALSE(step.floor(kDevice, 0, DType::bf16));
  step.add(Opcode::matmul, {x, x}, x);
  EXPECT_FALSE(step.floor(kDevice));
  const DeviceRates both = {.products = {{DType::f32, kProduct}, {DType::bf16, 2.0}},
                            .memory = kMemory};
  const std::optional<StepFloor> floor = step.floor(both, 0, DType::bf16);
  ASSERT_TRUE(floor);
  EXPECT_NEAR(floor->seconds, 2.0 * 8 * 8 * 8 / 2.0 + 2.0 * 2 * 64 / kMemory, 1e-3);
  EXPECT_EQ(floor->product, 2.0);
}

TEST(Floor, SaysWhatBoundsAnInstruction) {
  const Work work{.flops = 4.0 * kProduct, .bytes = 3.0 * kMemory};
  EXPECT_TRUE(floor_of(Opcode::attention, work, kDevice).by_flops);
  EXPECT_DOUBLE_EQ(floor_of(Opcode::attention, work, kDevice).seconds, 4.0);
  EXPECT_FALSE(floor_of(Opcode::layer_norm, work, kDevice).by_flops);
  EXPECT_DOUBLE_EQ(floor_of(Opcode::layer_norm, work, kDevice).seconds, 3.0);
}

}  // namespace
}  // namespace hidup
