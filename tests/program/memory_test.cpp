#include "program/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/verify.h"
#include "sample.h"

namespace hidup {
namespace {

TEST(MemoryPlan, IsRightOnEveryRankAndReusesActivations) {
  const Program program = sample_program(4);
  for (int64_t rank = 0; rank < 4; ++rank) {
    const MemoryPlan plan = plan_memory(program, rank);
    EXPECT_NO_THROW(verify(program, plan));
    int64_t activations = 0;
    for (size_t v = 0; v < program.values.size(); ++v) {
      activations += program.values[v].persistent() ? 0 : plan.sizes[v];
    }
    EXPECT_LT(plan.activation_bytes, activations);
    EXPECT_EQ(plan.parameter_bytes * 2, plan.optimizer_bytes);
  }
}

TEST(MemoryPlan, ARankMayHoldNothing) {
  const Program program = sample_program(7);  // 5 sequences
  const MemoryPlan plan = plan_memory(program, 6);
  EXPECT_EQ(plan.sizes[static_cast<size_t>(program.tokens[0])], 0);
  EXPECT_NO_THROW(verify(program, plan));
}

// What is saved for the backward pass grows with the layers; the rest is shared.
TEST(MemoryPlan, WorkingMemoryDoesNotGrowWithTheLayers) {
  const auto activations = [](int64_t layers) {
    return plan_memory(sample_program(1, 2048, layers), 0).activation_bytes;
  };
  const int64_t per_layer = activations(3) - activations(2);
  EXPECT_NEAR(static_cast<double>(activations(9) - activations(3)),
              6.0 * static_cast<double>(per_layer), 0.02 * static_cast<double>(activations(9)));
}

TEST(MemoryPlan, NamesTheLargest) {
  const Program program = sample_program(1);
  const std::string text = largest_values(program, plan_memory(program, 0), 2);
  EXPECT_NE(text.find("layers."), std::string::npos) << text;
  EXPECT_EQ(std::ranges::count(text, ','), 1);
  EXPECT_NE(text.find(" KiB (activation)"), std::string::npos) << text;
}

}  // namespace
}  // namespace hidup
