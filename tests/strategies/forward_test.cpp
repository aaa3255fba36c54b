// The forward pass alone. strategies_test.cpp checks in all cases that its loss is the same under
// every strategy.
#include <gtest/gtest.h>

#include <cmath>

#include "fake_ranks/fake_ranks.h"
#include "search/named/named_strategies.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

TEST(ForwardPass, WithoutDropoutItsLossIsThatOfTheStep) {
  for (const Graph& graph :
       {strategy_model("bert", "", 0, 0.0, 0.0), strategy_model("gpt", "top2", 3, 1.25, 0.0)}) {
    const ShortRun run = run_alone(graph, 1, kStrategyVocab);
    EXPECT_DOUBLE_EQ(run.forward_losses[0], run.losses[0]);
  }
}

TEST(ForwardPass, LeavesDropoutOut) {
  const ShortRun dropped = run_alone(strategy_model("bert"), 1, kStrategyVocab);
  const ShortRun whole = run_alone(strategy_model("bert", "", 0, 0.0, 0.0), 1, kStrategyVocab);
  EXPECT_NE(dropped.losses[0], whole.losses[0]);
  EXPECT_EQ(dropped.forward_losses[0], whole.forward_losses[0]);
}

TEST(ForwardPass, ReadsTheParametersOfTheTraining) {
  const Graph graph = strategy_model("gpt", "top2", 3, 1.25);
  const ShortRun run = run_alone(graph, 3, kStrategyVocab);
  EXPECT_LT(run.forward_losses[1], run.forward_losses[0] - 0.01);
}

// Computes the loss from the logits, in double.
double loss_of(const ForwardRun& run) {
  double loss = 0.0;
  const std::vector<int32_t>& targets = run.targets.at(0);
  for (size_t row = 0; row < targets.size(); ++row) {
    double sum = 0.0;
    for (size_t v = 0; v < kStrategyVocab; ++v) {
      sum += std::exp(static_cast<double>(run.logits.at(row * kStrategyVocab + v)));
    }
    const auto target = static_cast<size_t>(targets[row]);
    loss += std::log(sum) - static_cast<double>(run.logits[row * kStrategyVocab + target]);
  }
  return loss / static_cast<double>(targets.size());
}

// Every rank gets all logits in one piece, for any layout, microbatches and type of computation.
TEST(ForwardPass, KeepsTheLogits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Graph graph = with_precision(strategy_model("gpt", "hash", 3, 0.8), dtype);
    const std::unique_ptr<Communicator> self = make_self_communicator();
    const ForwardRun expected =
        run_forward(graph, replicated_strategy(graph, {{"ranks", 1}}), *self, kStrategyVocab);
    ASSERT_EQ(expected.logits.size(), static_cast<size_t>(5 * 7 * kStrategyVocab));
    EXPECT_NEAR(loss_of(expected), expected.loss, 1e-5);
    const double near = dtype == DType::f32 ? 1e-5 : 0.02;
    for (const NamedStrategy& named : named_strategies()) {
      Strategy strategy = named_strategy(named.name, graph, strategy_mesh(3, 0));
      strategy.microbatches = 2;
      run_ranks(3, [&](Communicator& world) {
        const ForwardRun found = run_forward(graph, strategy, world, kStrategyVocab);
        EXPECT_NEAR(found.loss, expected.loss, bounds_of(dtype).loss * expected.loss);
        ASSERT_EQ(found.logits.size(), expected.logits.size());
        double worst = 0.0;
        for (size_t i = 0; i < found.logits.size(); ++i) {
          worst =
              std::max(worst, static_cast<double>(std::abs(found.logits[i] - expected.logits[i])));
        }
        EXPECT_LE(worst, near) << named.name << " on rank " << world.rank();
      });
    }
  }
}

}  // namespace
}  // namespace hidup
