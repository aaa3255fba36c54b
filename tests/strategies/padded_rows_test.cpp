// The bytes between padded rows hold old memory contents: here NaN.
#include <gtest/gtest.h>

#include "fake_ranks/fake_ranks.h"
#include "search/named/named_strategies.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

// Fills a rank's activations, which an instruction writes before any reads them.
void fill_with_nan(Executor& executor, int64_t rank) {
  const Program& program = executor.program();
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    if (!value.persistent() && value.holds.empty()) {
      const int64_t bytes = program.local_bytes(id, rank);
      const std::vector<std::byte> ones(static_cast<size_t>(bytes), std::byte{0xFF});
      executor.write(id, 0, bytes / size_of(value.dtype), ones.data());
    }
  }
}

// Returns the first token for all inputs.
StepInputs any_inputs(const Program& program, int64_t rank) {
  const auto parts = [&](const std::vector<ValueId>& values) {
    std::vector<std::vector<int32_t>> found;
    for (const ValueId id : values) {
      found.emplace_back(static_cast<size_t>(elements(program.local_shape(id, rank))), 0);
    }
    return found;
  };
  return {parts(program.tokens), parts(program.targets), {}};
}

TEST(PaddedRows, NobodyReadsWhatLiesBetween) {
  const Graph graph = strategy_model_of("bert", {}, 0.1, kPaddedVocab);
  for (const char* name : {"dp", "megatron"}) {
    SCOPED_TRACE(name);
    const Strategy strategy = named_strategy(name, graph, {{"ranks", 2}});
    run_ranks(2, [&](Communicator& world) {
      const auto run = [&](const AfterStep& after_step) {
        return run_steps(graph, strategy, world, kStrategySteps, kStrategyVocab, after_step);
      };
      const ShortRun clean = run(nullptr);
      EXPECT_EQ(run([&](Executor& executor, int) { fill_with_nan(executor, world.rank()); }),
                clean);
      run([&](Executor& executor, int step) {
        fill_with_nan(executor, world.rank());
        const StepInputs inputs = any_inputs(executor.program(), world.rank());
        EXPECT_EQ(executor.find_not_finite(step + 1, 0.0, inputs), -1);
      });
    });
  }
}

}  // namespace
}  // namespace hidup
