// Trainings in fp16 whose scaled gradients overflow.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/text.h"
#include "short_run.h"

namespace hidup {
namespace {

// Returns the optimizer's state: masters and moments.
std::vector<std::vector<float>> state_of(Executor& executor) {
  std::vector<std::vector<float>> state;
  const Program& program = executor.program();
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    if (program.value(id).role == Value::Role::optimizer_state) {
      state.push_back(executor.read(id));
    }
  }
  return state;
}

TEST(Overflow, ChangesNothing) {
  const Graph graph = with_precision(parse_graph(R"(graph case
input tokens : i32[5, 7]
input targets : i32[5, 7]
parameter table : f32[11, 6] = uniform(1)
parameter w : f32[6, 11] = uniform(1) decay
x = embedding(tokens, table)
y = matmul(x, w)
loss = cross_entropy(y, targets)
)",
                                                 "case"),
                                     DType::f16);
  std::vector<std::vector<std::vector<float>>> states;
  const auto after_step = [&](Executor& executor, int step) {
    states.push_back(state_of(executor));
    if (step > 0) {
      const bool overflowed = step <= 2;
      EXPECT_EQ(std::isfinite(executor.result(executor.program().gradient_norm)[0]), !overflowed);
      EXPECT_EQ(executor.state().skipped, overflowed ? step : 2U);
    }
    // Steps 1 and 2 overflow: 2^40 times a gradient is more than 65504.
    kernels::StepState state = executor.state();
    state.loss_scale = step < 2 ? 0x1p40F : 256.0F;
    executor.set_state(state);
  };
  run_alone(graph, 3, 11, after_step);
  ASSERT_EQ(states.size(), 4U);
  ASSERT_EQ(states[0].size(), 6U);  // of two parameters: master, m and v
  EXPECT_EQ(states[1], states[0]);
  EXPECT_EQ(states[2], states[0]);
  for (size_t i = 0; i < states[0].size(); ++i) {
    EXPECT_NE(states[3][i], states[0][i]) << i;
  }
}

}  // namespace
}  // namespace hidup
