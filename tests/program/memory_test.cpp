#include "program/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/deadline.h"
#include "program/access.h"
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

// Returns offsets by trying: greedy by size, the lowest free offset.
std::vector<int64_t> offsets_by_trying(const Program& program, const MemoryPlan& plan) {
  const RankSteps steps(program, plan.rank);
  const Accesses accesses(program, steps);
  const HappensBefore before(program, steps);
  const auto dies_before = [&](size_t a, size_t b) {
    return std::ranges::all_of(accesses[a], [&](const Access& use) {
      return before(use.instruction, accesses[b].front().instruction);
    });
  };
  const auto aligned = [](int64_t bytes) {
    return (bytes + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
  };
  std::vector<size_t> order;
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (!program.values[v].persistent() && !accesses[v].empty()) {
      order.push_back(v);
    }
  }
  std::ranges::stable_sort(order, std::less<>(), [&](size_t v) {
    return std::pair(-plan.sizes[v], accesses[v].front().instruction);
  });
  std::vector<int64_t> offsets = plan.offsets;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t v = order[i];
    int64_t offset = plan.bytes - plan.activation_bytes;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; ++j) {
        const size_t other = order[j];
        const int64_t end = offsets[other] + aligned(plan.sizes[other]);
        if (offsets[other] < offset + aligned(plan.sizes[v]) && offset < end &&
            !dies_before(v, other) && !dies_before(other, v)) {
          offset = end;
          moved = true;
        }
      }
    }
    offsets[v] = offset;
  }
  return offsets;
}

TEST(MemoryPlan, TakesTheLowestPlacesThatAreFree) {
  for_all_programs(3, [](const Program& program) {
    for (const int64_t rank : {0, 2}) {
      const MemoryPlan plan = plan_memory(program, rank);
      EXPECT_EQ(plan.offsets, offsets_by_trying(program, plan));
    }
  });
}

TEST(MemoryPlan, ARankMayHoldNothing) {
  const Program program = sample_program(7);  // 5 sequences
  const MemoryPlan plan = plan_memory(program, 6);
  EXPECT_EQ(plan.sizes[static_cast<size_t>(program.tokens[0])], 0);
  EXPECT_NO_THROW(verify(program, plan));
}

// Activations for the backward pass grow with the layers; other memory is shared.
TEST(MemoryPlan, WorkingMemoryDoesNotGrowWithTheLayers) {
  const auto activations = [](int64_t layers) {
    return plan_memory(sample_program(1, 2048, layers), 0).activation_bytes;
  };
  const int64_t per_layer = activations(3) - activations(2);
  EXPECT_NEAR(static_cast<double>(activations(9) - activations(3)),
              6.0 * static_cast<double>(per_layer), 0.02 * static_cast<double>(activations(9)));
}

// The test counts work, not time. Both streams first use values of one size in turn.
TEST(MemoryPlan, WorkGrowsAsTheLayersDo) {
  const auto work = [](int64_t layers) {
    const Graph graph = build_model(sample_deck(layers), 31);
    Strategy strategy = named_strategy("megatron-sp", graph, {{"ranks", 2}});
    strategy.microbatches = 2;
    const Program program = lower(graph, strategy, sample_options(2048));
    const int64_t before = TimeLimit::checks();
    plan_memory(program, 0);
    return TimeLimit::checks() - before;
  };
  EXPECT_LE(work(400), 5 * work(100));
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
