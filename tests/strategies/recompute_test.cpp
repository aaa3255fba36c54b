// Parameters gathered again and recomputed activations have the same bits: whole runs equal those
// in which all stays in memory.
#include <gtest/gtest.h>

#include "core/random.h"
#include "fake_ranks/fake_ranks.h"
#include "search/named/named_strategies.h"
#include "sharding/memory_choices.h"
#include "strategy_cases.h"

namespace hidup {
namespace {

constexpr int kRanks = 2;

// Returns the differences; empty where all bits are equal.
std::string other_bits(const ShortRun& expected, const ShortRun& found) {
  return expected == found ? "" : "not equal\n" + differences(expected, found, {0.0, 0.0, 0.0F});
}

ShortRun run_on_threads(const Graph& graph, const Strategy& strategy) {
  ShortRun found;
  run_ranks(kRanks, [&](Communicator& world) {
    const ShortRun run = run_steps(graph, strategy, world, 2, kStrategyVocab);
    if (world.rank() == 0) {
      found = run;
    }
  });
  return found;
}

// Recomputes random operations, and gathers random parameters of f32 for each pass; in 16 bits all
// or none, since roundings differ for a bias that comes without its weight.
Strategy with_some_again(const Graph& graph, Strategy strategy, uint64_t number) {
  const RandomStream random = random_stream(number, "again");
  uint64_t next = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].recompute =
        random.word(next++) % 2 == 0 && can_recompute(graph, op);
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    const bool wide = graph.tensor(parameter.tensor).dtype == DType::f32;
    parameter.residency =
        random.word(wide ? next++ : 0) % 2 == 0 ? Residency::pass : Residency::step;
  }
  return strategy;
}

void expect_the_same_bits(const Graph& graph, const std::string& what) {
  for (const char* name : {"dp", "fsdp-kept", "megatron-sp", "ep-deepspeed"}) {
    Strategy strategy = named_strategy(name, graph, strategy_mesh(kRanks, 0));
    for (const int microbatches : {1, 2}) {
      strategy.microbatches = microbatches;
      const ShortRun kept = run_on_threads(graph, strategy);
      for (const Recompute level : {Recompute::cheap, Recompute::block}) {
        const Strategy again =
            with_residency(with_recompute(graph, strategy, level), Residency::pass);
        EXPECT_EQ(other_bits(kept, run_on_threads(graph, again)), "")
            << what << " by " << name << ", " << microbatches << ", " << name_of(level);
      }
      for (uint64_t number = 0; number < 3; ++number) {
        EXPECT_EQ(other_bits(kept, run_on_threads(graph, with_some_again(graph, strategy, number))),
                  "")
            << what << " by " << name << ", " << microbatches << ", random " << number;
      }
    }
  }
}

TEST(Again, HasTheSameBits) {
  for (const char* family : {"bert", "gpt", "llama"}) {
    expect_the_same_bits(strategy_model(family), family);
  }
}

TEST(Again, HasTheSameBitsInSixteenBits) {
  for (const char* family : {"gpt", "llama"}) {
    expect_the_same_bits(with_precision(strategy_model(family), DType::bf16), family);
  }
}

TEST(Again, HasTheSameBitsWithExperts) {
  expect_the_same_bits(strategy_model("bert", "top2", 5, 0.6), "top2");
  expect_the_same_bits(strategy_model_of("bert", three_experts_per_token()), "topk");
}

}  // namespace
}  // namespace hidup
