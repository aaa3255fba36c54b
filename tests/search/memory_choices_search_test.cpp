// The search where memory is short, and where latencies count.
#include <gtest/gtest.h>

#include <algorithm>

#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/problem/build_problem.h"
#include "setting.h"

namespace hidup {
namespace {

// Returns a model with activations that take most of the memory.
Setting with_large_activations() {
  Setting setting = quick_setting();
  setting.deck.model->layers = 4;
  setting.vocab = 100;
  return setting;
}

bool computes_again(const Strategy& strategy) {
  return std::ranges::any_of(strategy.ops, &OpStrategy::recompute);
}

bool frees_parameters(const Strategy& strategy) {
  return std::ranges::any_of(strategy.parameters, [](const ParameterStrategy& parameter) {
    return parameter.residency == Residency::pass;
  });
}

TEST(MemoryChoices, AreTakenWhereMemoryIsShortAndOnlyThere) {
  Setting setting = with_large_activations();
  const SearchOutcome free = setting.search();
  EXPECT_FALSE(computes_again(free.step.strategy));
  EXPECT_FALSE(frees_parameters(free.step.strategy));
  EXPECT_EQ(free.step.strategy.accumulate, 1);
  setting.options.microbatches = {1};
  setting.options.baselines = true;  // so that memory is planned
  const int64_t needed = setting.search().candidates[0].memory_bytes;
  for (const auto& [part, groups] : {std::pair(0.5, std::vector{1}), {0.3, {1, 2, 8}}}) {
    setting.options.memory_limit = static_cast<int64_t>(part * static_cast<double>(needed));
    setting.options.accumulate = groups;
    const SearchOutcome tight = setting.search();
    EXPECT_TRUE(groups.size() > 1 ? tight.step.strategy.accumulate > 1
                                  : computes_again(tight.step.strategy));
    EXPECT_LE(tight.candidates[0].memory_bytes, setting.options.memory_limit);
    const Program program = lower(setting.graph(), tight.step.strategy, setting.options.lowering);
    EXPECT_LE(largest_plan(program).bytes, setting.options.memory_limit);
    for (int64_t rank = 0; rank < ranks_of(setting.mesh); ++rank) {
      EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
    }
  }
}

// Compares the plan with plans of the same rules that recompute one operation each.
TEST(MemoryChoices, SaveBytesForTime) {
  const Setting setting = with_large_activations();
  const BuiltProblem built =
      build_problem(setting.graph(), setting.mesh, setting.costs(), {.memory_choices = true});
  int again = 0, for_a_pass = 0;
  for (size_t kind = 0; kind < built.meanings.size(); ++kind) {
    const std::vector<ChoiceMeaning>& meanings = built.meanings[kind];
    const std::vector<Choice>& choices = built.problem.kinds[kind].choices;
    for (size_t c = 1; c < meanings.size(); ++c) {
      const Choice& before = choices[c - 1];
      if (meanings[c].op_strategy.recompute && !meanings[c - 1].op_strategy.recompute) {
        EXPECT_EQ(choices[c].saved_bytes, 0.0);
        EXPECT_GT(before.saved_bytes, 0.0);
        EXPECT_DOUBLE_EQ(choices[c].backward_compute_s,
                         before.backward_compute_s + before.forward_compute_s);
        ++again;
      }
      if (std::ranges::count(meanings[c].residency, Residency::pass) > 0 &&
          !meanings[c].op_strategy.recompute) {
        EXPECT_GT(choices[c].gather_s, 0.0);
        EXPECT_GE(choices[c].sync_s, choices[c].gather_s);
        ++for_a_pass;
      }
    }
  }
  EXPECT_GT(again, 0);
  EXPECT_GT(for_a_pass, 0);
}

// Groups are microbatches in sequence: as much computation, fewer activations.
TEST(MemoryChoices, GroupsDivideActivations) {
  const Setting setting = with_large_activations();
  const auto built = [&](int accumulate) {
    return build_problem(setting.graph(), setting.mesh, setting.costs(),
                         {.accumulate = accumulate});
  };
  const BuiltProblem one = built(1), four = built(4);
  ASSERT_EQ(one.problem.kinds.size(), four.problem.kinds.size());
  for (size_t kind = 0; kind < one.problem.kinds.size(); ++kind) {
    for (size_t c = 0; c < one.problem.kinds[kind].choices.size(); ++c) {
      const Choice& whole = one.problem.kinds[kind].choices[c];
      const Choice& parts = four.problem.kinds[kind].choices[c];
      EXPECT_GE(parts.forward_compute_s, whole.forward_compute_s * (1.0 - 1e-9));
      EXPECT_DOUBLE_EQ(parts.saved_bytes, whole.saved_bytes / 4.0);  // 32 sequences
      EXPECT_EQ(parts.sync_s, whole.sync_s);
      EXPECT_GE(parts.persistent_bytes, whole.persistent_bytes);  // sums stay between groups
    }
  }
  const Plan plan{.choices = std::vector<int>(four.problem.ops.size())};
  EXPECT_EQ(to_strategy(setting.graph(), setting.mesh, four, plan).accumulate, 4);
}

// The two settings differ in the latency.
TEST(DeferredGradients, AreAChoiceWhereLatenciesCount) {
  Setting setting = small_setting();
  setting.options.lowering.bucket_bytes = 1 << 12;
  setting.options.baselines = false;
  setting.deck.train->batch = 512;
  setting.machine.links[0].latency_s = 2e-4;
  const SearchOutcome slow = setting.search();
  EXPECT_TRUE(slow.step.strategy.defer_gradients);
  EXPECT_TRUE(std::ranges::any_of(slow.candidates, [](const Candidate& candidate) {
    return candidate.strategy.name == "search" && candidate.strategy.defer_gradients;
  }));
  EXPECT_EQ(slow.lower_bound_s, 0.0);  // it would hold for gradients in buckets only
  setting.options.hints.defer_gradients = false;
  EXPECT_LT(slow.step.seconds(), 0.99 * setting.search().step.seconds());
  setting.options.hints = {};
  setting.machine.links[0].latency_s = 1e-8;
  const SearchOutcome quick = setting.search();
  EXPECT_FALSE(quick.step.strategy.defer_gradients);
  EXPECT_GT(quick.lower_bound_s, 0.0);
}

}  // namespace
}  // namespace hidup
