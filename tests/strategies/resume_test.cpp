// Trainings that resume from a checkpoint on other ranks, under another strategy, or in another
// precision.
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "comm/collective.h"
#include "fake_ranks/fake_ranks.h"
#include "saved_run.h"
#include "search/named/named_strategies.h"
#include "strategy_cases.h"
#include "temporary_folder.h"
#include "train/held_state.h"

namespace hidup {
namespace {

constexpr int kSaved = 2;  // steps done before the checkpoint
constexpr int kSteps = 4;

Strategy strategy_of(const NamedStrategy& named, const Graph& graph, int ranks, int microbatches) {
  Strategy strategy = named_strategy(named.name, graph, strategy_mesh(ranks, ranks));
  strategy.microbatches = microbatches;
  return strategy;
}

class Resume : public testing::Test {
 protected:
  ShortRun run_and_save(const Graph& graph, const Strategy& strategy, int ranks) const {
    return run_saved(graph, strategy, ranks, kSteps, {folder_ / "", kSaved});
  }
  std::vector<double> go_on(const Graph& graph, const Strategy& strategy, int ranks) const {
    return resume(graph, strategy, ranks, kSteps, {folder_ / "", kSaved});
  }

  // Runs every named strategy on n ranks, then another one on m ranks, n != m.
  void expect_equal_after_resume(const Graph& graph, double tolerance) const {
    const auto all = named_strategies();
    for (size_t i = 0; i < all.size(); ++i) {
      const int before = static_cast<int>(1 + i % 4);
      const int after = static_cast<int>(1 + (i + 1 + i / 4 % 3) % 4);
      const NamedStrategy& other = all[(i + 3) % all.size()];
      const ShortRun whole =
          run_and_save(graph, strategy_of(all[i], graph, before, 1 + i % 2), before);
      const std::vector<double> again = go_on(graph, strategy_of(other, graph, after, 2), after);
      ASSERT_EQ(again.size(), size_t{kSteps - kSaved});
      for (size_t step = 0; step < again.size(); ++step) {
        EXPECT_NEAR(again[step] / whole.losses.at(kSaved + step), 1.0, tolerance)
            << all[i].name << " on " << before << " ranks, then " << other.name << " on " << after;
      }
      const std::vector<double> same =
          go_on(graph, strategy_of(all[i], graph, before, 1 + i % 2), before);
      EXPECT_EQ(same, std::vector<double>(whole.losses.begin() + kSaved, whole.losses.end()))
          << all[i].name << " on " << before << " ranks, then the same";
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Resume, OnOtherRanksInF32) {
  for (const Graph& graph :
       {strategy_model("bert"), strategy_model_of("bert", shared_and_balanced()),
        strategy_model("gpt")}) {
    expect_equal_after_resume(graph, 2e-5);
  }
}

// Strategies round other numbers in 16 bits (bounds_of()), even without a checkpoint.
TEST_F(Resume, OnOtherRanksInBf16) {
  for (const Graph& graph : {strategy_model("bert", "hash", 3, 0.8), strategy_model("gpt")}) {
    expect_equal_after_resume(with_precision(graph, DType::bf16), bounds_of(DType::bf16).loss);
  }
}

// A change from f32 to 16 bits and back loses only the rounding of a step's own numbers.
TEST_F(Resume, InAnotherPrecision) {
  const Graph wide = strategy_model("gpt");
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
      const Graph before = with_precision(wide, from);
      const Graph after = with_precision(wide, to);
      const NamedStrategy& named = named_strategies()[2];
      const ShortRun whole = run_and_save(before, strategy_of(named, before, 3, 1), 3);
      const std::vector<double> again = go_on(after, strategy_of(named, after, 2, 1), 2);
      for (size_t step = 0; step < again.size(); ++step) {
        EXPECT_NEAR(again[step] / whole.losses.at(kSaved + step), 1.0,
                    bounds_of(from).loss + bounds_of(to).loss)
            << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

// Runs the first steps under a strategy and the others under the second one, with the state that
// HeldState moved between them. Returns rank 0's losses.
std::vector<double> change_strategy(const Graph& graph, const Strategy& first,
                                    const Strategy& second, int ranks) {
  std::vector<double> losses;
  run_ranks(ranks, [&](Communicator& world) {
    std::optional<HeldState> held;
    const auto hold = [&](Executor& executor, int step) {
      if (step == kSaved) {
        held.emplace(executor, world);
      }
    };
    const auto give = [&](Executor& executor, int step) {
      if (step == kSaved) {
        held->give(world, executor);
      }
    };
    ShortRun all = run_steps(graph, first, world, kSaved, kStrategyVocab, hold);
    const ShortRun rest = run_steps(graph, second, world, kSteps, kStrategyVocab, give, kSaved);
    if (world.rank() == 0) {
      losses = std::move(all.losses);
      losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
    }
  });
  return losses;
}

TEST_F(Resume, WithoutAFileUnderOtherShares) {
  constexpr uint64_t kCases = 5;
  for (const Graph& graph : {strategy_model("bert", "top2", 3, 1.25), strategy_model("gpt")}) {
    const ShortRun alone = run_alone(graph, kSteps, kStrategyVocab);
    for (uint64_t number = 0; number < kCases; ++number) {
      const int ranks = static_cast<int>(2 + number % 3);
      const Strategy first = random_strategy_with_shares(graph, ranks, 2 * number);
      const Strategy second = random_strategy_with_shares(graph, ranks, 2 * number + 1);
      const std::vector<double> losses = change_strategy(graph, first, second, ranks);
      for (size_t step = 0; step < losses.size(); ++step) {
        EXPECT_NEAR(losses[step] / alone.losses[step], 1.0, 2e-5) << number << " on " << ranks;
      }
    }
  }
}

TEST_F(Resume, WithoutAFileRefusesOtherValues) {
  const Graph graph = strategy_model("gpt");
  const Graph half = with_precision(graph, DType::bf16);  // has masters, too
  const Strategy strategy = strategy_of(named_strategies()[0], graph, 2, 1);
  run_ranks(2, [&](Communicator& world) {
    std::optional<HeldState> held;
    run_steps(graph, strategy, world, 1, kStrategyVocab,
              [&](Executor& executor, int) { held.emplace(executor, world); });
    EXPECT_THROW(run_steps(half, strategy, world, 1, kStrategyVocab,
                           [&](Executor& executor, int) { held->give(world, executor); }),
                 CollectiveError);
  });
}

// The error names a tensor of another shape.
TEST_F(Resume, RefusesAnotherShape) {
  const Graph graph = strategy_model("gpt");
  const Graph other = strategy_model("gpt", "hash", 3, 0.8);
  run_and_save(graph, strategy_of(named_strategies()[0], graph, 1, 1), 1);
  EXPECT_THROW(go_on(other, strategy_of(named_strategies()[0], other, 1, 1), 1), Error);
}

}  // namespace
}  // namespace hidup
