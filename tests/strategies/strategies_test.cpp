// Every case of strategy_cases.h on ranks that are threads. HIDUP_RANDOM_STRATEGIES in the
// environment sets the number of random strategies per model.
#include <gtest/gtest.h>

#include <cstdlib>

#include "deck/model_deck.h"
#include "fake_ranks/fake_ranks.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

class OnThreads : public testing::TestWithParam<int> {
 protected:
  TriedRanks ranks() const {
    return {GetParam(), [ranks = GetParam()](const Graph& graph, const Strategy& strategy,
                                             const ShortRun& expected, const Bounds& bounds,
                                             const RunOptions& options) {
              std::string found;
              run_ranks(ranks, [&](Communicator& world) {
                const std::string own =
                    compare_steps(graph, strategy, world, expected, bounds, options);
                if (world.rank() == 0) {
                  found = own;
                }
              });
              return found;
            }};
  }
};

class RandomStrategies : public OnThreads {
 protected:
  static int number() {
    const char* text = std::getenv("HIDUP_RANDOM_STRATEGIES");
    return text == nullptr ? HIDUP_RANDOM_STRATEGIES : std::atoi(text);
  }
};

TEST_P(RandomStrategies, OfBert) {
  expect_equal_under_random_strategies(strategy_model("bert"), ranks(), number());
}

TEST_P(RandomStrategies, OfSgMoe) {  // drops tokens
  expect_equal_under_random_strategies(strategy_model("bert", "top2", 5, 0.6), ranks(), number());
}

TEST_P(RandomStrategies, OfSwitch) {
  expect_equal_under_random_strategies(strategy_model("bert", "top1", 3, 1.25), ranks(), number());
}

TEST_P(RandomStrategies, OfRoutersWithLosses) {
  expect_equal_under_random_strategies(strategy_model_of("bert", three_experts_per_token()),
                                       ranks(), (number() + 2) / 3);
}

TEST_P(RandomStrategies, OfGatedAndSharedExperts) {
  expect_equal_under_random_strategies(strategy_model_of("llama", shared_and_balanced()), ranks(),
                                       (number() + 2) / 3);
}

// Two operations read one parameter, each in the layout of its rule.
TEST_P(RandomStrategies, OfGpt) {
  expect_equal_under_random_strategies(strategy_model("gpt"), ranks(), (number() + 2) / 3);
}

// Heads share keys and values, and a rank may have a part of such a group.
TEST_P(RandomStrategies, OfLlama) {
  expect_equal_under_random_strategies(strategy_model("llama"), ranks(), number());
}

// Logits have padded rows, unless a random rule needs them in another layout.
TEST_P(RandomStrategies, OfLargeVocabularies) {
  for (const char* family : {"bert", "gpt"}) {
    expect_equal_under_random_strategies(strategy_model_of(family, {}, 0.1, kPaddedVocab), ranks(),
                                         (number() + 2) / 3);
  }
}

// Few numbers of ranks divide the 65 positions.
TEST_P(RandomStrategies, OfVit) {
  const int tried = (number() + 5) / 6;
  expect_equal_under_random_strategies(strategy_model("vit"), ranks(), tried);
  expect_equal_under_random_strategies(strategy_model("vit", "top2", 3, 0.8), ranks(), tried);
}

TEST_P(RandomStrategies, WithShortGradients) {
  expect_near_with_short_gradients(strategy_model("gpt"), ranks(), (number() + 2) / 3);
}

class NamedStrategies : public OnThreads {};

TEST_P(NamedStrategies, OfLargeVocabularies) {
  for (const char* family : {"bert", "gpt"}) {
    const Graph graph = strategy_model_of(family, {}, 0.1, kPaddedVocab);
    expect_equal_under_named_strategies(graph, ranks(), 2);
  }
  expect_equal_in_sixteen_bits(strategy_model_of("gpt", {}, 0.1, kPaddedVocab), ranks());
}

TEST_P(NamedStrategies, OfDenseModels) {
  for (const char* family : {"bert", "gpt", "llama"}) {
    expect_equal_under_named_strategies(strategy_model(family), ranks(), 4);
  }
}

TEST_P(NamedStrategies, WithSharesOfTheLinearProgram) {
  for (const Graph& graph : {strategy_model("gpt"), strategy_model("bert", "top2", 5, {})}) {
    expect_equal_under_found_shares(graph, ranks());
  }
}

TEST_P(NamedStrategies, OfVit) {
  expect_equal_under_named_strategies(strategy_model("vit", "top1", 5, 0.6), ranks(), 2);
}

// 3 experts do not divide among 2 or 4 ranks; 5 are more than the ranks.
TEST_P(NamedStrategies, OfModelsWithExperts) {
  for (const Graph& graph :
       {strategy_model("bert", "top2", 3, 1.25), strategy_model("bert", "top1", 5, 0.6),
        strategy_model("bert", "hash", 3, 0.8), strategy_model("bert", "top1", 1, 1.0),
        strategy_model_of("llama", shared_and_balanced()),
        strategy_model_of("gpt", two_with_gshard())}) {
    expect_equal_under_named_strategies(graph, ranks(), 3);
  }
}

TEST_P(NamedStrategies, InGroups) {
  expect_equal_in_groups(strategy_model("gpt"), ranks());
  expect_equal_in_groups(strategy_model("bert", "top2", 3, 1.25), ranks());
}

TEST_P(NamedStrategies, PerAxis) {
  if (GetParam() == 4) {  // 2 x 2
    expect_equal_under_combinations(strategy_model("bert", "top2", 3, 1.25), ranks());
  }
}

TEST_P(NamedStrategies, InSixteenBits) {
  const MoeDeck hash = {
      .experts = 3, .router = "hash", .top_k = 2, .capacity_factor = 0.8, .z_loss = 0.2};
  for (const Graph& graph :
       {strategy_model_of("gpt", hash), strategy_model("gpt"), strategy_model("llama")}) {
    expect_equal_in_sixteen_bits(graph, ranks());
  }
}

const auto kRankCounts = testing::ValuesIn(std::vector<int>{HIDUP_RANK_COUNTS});

std::string rank_count(const testing::TestParamInfo<int>& info) {
  return std::to_string(info.param) + "ranks";
}

INSTANTIATE_TEST_SUITE_P(Threads, RandomStrategies, kRankCounts, rank_count);
INSTANTIATE_TEST_SUITE_P(Threads, NamedStrategies, kRankCounts, rank_count);

}  // namespace
}  // namespace hidup
