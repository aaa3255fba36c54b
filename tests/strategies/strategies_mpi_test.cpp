// A sample of the cases of strategy_cases.h on processes: run under mpirun, once for all cases.
//
//   test_strategies_mpi NUMBER [EVERY]
//
// NUMBER: random strategies per model. EVERY: tries one out of so many cases with a named strategy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "comm/mpi_session.h"
#include "core/check.h"
#include "device_needed/mpi_main.h"
#include "search/named/named_strategies.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

Communicator* g_world = nullptr;  // of the session in main()
int g_strategies = 0;             // random ones per model
int g_named_every = 1;            // TriedRanks::named_every

// Rank 0 compares and sends the result to every rank, so that all continue together.
TriedRanks processes() {
  return {g_world->size(),
          [](const Graph& graph, const Strategy& strategy, const ShortRun& expected,
             const Bounds& bounds, const RunOptions& options) {
            return g_world->broadcast(
                compare_steps(graph, strategy, *g_world, expected, bounds, options));
          },
          g_named_every};
}

TEST(RandomStrategies, EqualOneRank) {
  for (const Graph& graph :
       {strategy_model("bert", "top2", 5, 0.6), strategy_model("bert", "top1", 3, 1.25)}) {
    expect_equal_under_random_strategies(graph, processes(), g_strategies);
  }
  for (const char* family : {"bert", "gpt", "llama"}) {
    expect_equal_under_random_strategies(strategy_model(family), processes(), g_strategies);
  }
  expect_equal_under_random_strategies(strategy_model_of("bert", {}, 0.1, kPaddedVocab),
                                       processes(), g_strategies);
}

TEST(NamedStrategies, EqualOneRank) {
  for (const Graph& graph : {strategy_model("bert", "top1", 5, 0.6),
                             strategy_model_of("gpt", three_experts_per_token())}) {
    expect_equal_under_named_strategies(graph, processes(), std::min(g_strategies, 2));
  }
}

TEST(Pipelines, EqualOneRank) {
  expect_equal_under_pipelines(strategy_model("bert", "top2", 3, 1.25), processes());
}

TEST(NamedStrategies, EqualOneRankInSixteenBits) {
  expect_equal_in_sixteen_bits(strategy_model("gpt", "hash", 3, 0.8), processes());
}

TEST(NamedStrategies, PerAxisEqualOneRank) {
  if (g_world->size() == 4) {  // 2 x 2
    expect_equal_under_combinations(strategy_model("bert", "top1", 5, 0.6), processes());
  }
}

TEST(RandomStrategies, NearOneRankWithShortGradients) {
  expect_near_with_short_gradients(strategy_model("gpt"), processes(), g_strategies);
}

// A repeated program gives the same bits.
TEST(NamedStrategies, Repeat) {
  const Graph graph = strategy_model("bert", "top2", 3, 1.25);
  int cases = g_world->size();
  for (const NamedStrategy& named : named_strategies()) {
    if (cases++ % g_named_every != 0) {
      continue;
    }
    const Strategy strategy = named_strategy(named.name, graph, strategy_mesh(g_world->size(), 0));
    const ShortRun once = run_steps(graph, strategy, *g_world, kStrategySteps, kStrategyVocab);
    EXPECT_EQ(once, run_steps(graph, strategy, *g_world, kStrategySteps, kStrategyVocab))
        << named.name;
  }
}

TEST(RandomStrategies, WithSharesRepeat) {
  const Graph graph = strategy_model("bert", "top2", 3, 1.25);
  for (uint64_t number = 0; number < static_cast<uint64_t>(std::min(2 * g_strategies, 6));
       ++number) {
    const Strategy strategy = random_strategy_with_shares(graph, g_world->size(), number);
    const ShortRun once = run_steps(graph, strategy, *g_world, kStrategySteps, kStrategyVocab);
    EXPECT_EQ(once, run_steps(graph, strategy, *g_world, kStrategySteps, kStrategyVocab)) << number;
  }
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  return hidup::mpi_main(argc, argv, [&](hidup::MpiSession& mpi) {
    hidup::g_world = &mpi.world();
    hidup::g_strategies = argc > 1 ? std::atoi(argv[1]) : 1;
    hidup::g_named_every = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 1;
    if (hidup::g_world->rank() != 0) {  // all find the same
      delete testing::UnitTest::GetInstance()->listeners().Release(
          testing::UnitTest::GetInstance()->listeners().default_result_printer());
    }
    try {
      return RUN_ALL_TESTS();
    } catch (const std::exception& error) {
      hidup::abort_all_ranks(hidup::ExitCode::internal, error.what());
    }
  });
}
