// Steps that start before the host has waited for the one before.
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "core/check.h"
#include "graph/text.h"
#include "program/lower.h"
#include "short_run.h"

namespace hidup {
namespace {

using namespace std::chrono_literals;
using Order = Executor::Order;

constexpr auto kGraph = R"(graph case
input tokens : i32[4, 8]
input targets : i32[4, 8]
parameter table : f32[11, 6] = uniform(1)
parameter w : f32[6, 11] = uniform(1)
x = embedding(tokens, table)
d = dropout(x) {p=0.1}
y = matmul(d, w)
loss = cross_entropy(y, targets)
)";

// The loss, the accuracy and the norm of a step.
using Results = std::vector<float>;

// A run on one rank after its first step, before anything is recorded.
class SmallRun {
 public:
  SmallRun() {
    executor.initialize_parameters();
    start(1);
    wait();
  }

  // Starts a step; its inputs are freed before the return.
  void start(int64_t step, Order order = Order::recorded_untimed) {
    StepInputs inputs;
    for (auto* parts : {&inputs.tokens, &inputs.targets}) {
      std::vector<int32_t>& part = parts->emplace_back();
      for (int64_t i = 0; i < 32; ++i) {
        part.push_back(static_cast<int32_t>((7 * i + step) % 11));
      }
    }
    executor.start(step, 0.01, inputs, order);
  }

  Results wait() {
    executor.wait();
    const std::span<const float> loss = executor.result(program.loss);
    return {loss[0], loss[1], executor.result(program.gradient_norm)[0]};
  }

  const Graph graph = parse_graph(kGraph, "case");
  const Program program = lower(graph, replicated_strategy(graph, {{"ranks", 1}}), {});
  const MemoryPlan plan = plan_memory(program, 0);
  const std::unique_ptr<Communicator> world = make_self_communicator();
  const std::unique_ptr<Device> device = make_device({});
  const MeshGroups groups = MeshGroups(*world, program.mesh);
  const PlannedProgram planned = {program, plan};
  Store store = Store(std::span(&planned, 1), *device, groups, 1);
  Executor executor = Executor(program, plan, store, 0, 3);
};

// Returns the results of steps 2 to 6 of a separate run.
std::vector<Results> one_by_one() {
  SmallRun run;
  std::vector<Results> results;
  for (int64_t step = 2; step <= 6; ++step) {
    run.start(step);
    results.push_back(run.wait());
  }
  return results;
}

#define NEED_RECORDINGS()                       \
  if (device_kind() == "cpu") {                 \
    GTEST_SKIP() << "CPU ranks record nothing"; \
  }

TEST(ExecutorSteps, HaveTheSameBitsWhereTheNextStartsEarly) {
  NEED_RECORDINGS()
  SmallRun run;
  std::vector<Results> results;
  run.start(2);
  for (int64_t step = 2; step <= 6; ++step) {
    if (step < 6) {
      ASSERT_TRUE(run.executor.takes_next());
      run.start(step + 1);
    }
    results.push_back(run.wait());
    EXPECT_EQ(run.executor.state().step, static_cast<uint64_t>(step));
    EXPECT_TRUE(run.executor.times().empty());
  }
  EXPECT_EQ(results, one_by_one());
}

TEST(ExecutorSteps, AreReadWhileTheNextOneRuns) {
  NEED_RECORDINGS()
  const std::vector<Results> expected = one_by_one();
  SmallRun run;
  run.start(2);
  std::atomic<bool> go = false;
  run.store.stream(StreamKind::compute).enqueue([&go] {
    while (!go) {
      std::this_thread::sleep_for(1ms);
    }
  });
  run.start(3);  // waits for this test's work
  EXPECT_FALSE(run.executor.takes_next());
  EXPECT_EQ(run.wait(), expected[0]);
  go = true;
  EXPECT_EQ(run.wait(), expected[1]);
}

TEST(ExecutorSteps, WaitForTheirTimes) {
  SmallRun run;
  run.start(2, Order::recorded);
  EXPECT_FALSE(run.executor.takes_next());
  EXPECT_THROW(run.start(3), Error);
  run.wait();
  EXPECT_EQ(run.executor.times().size(), run.program.instructions.size());
  const bool records = device_kind() != "cpu";
  run.start(3);
  EXPECT_EQ(run.executor.takes_next(), records);
  run.wait();
  EXPECT_EQ(run.executor.times().empty(), records);
}

}  // namespace
}  // namespace hidup
