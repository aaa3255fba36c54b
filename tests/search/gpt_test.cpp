// A parameter that two operations read: GPT's head is its embedding. It is one parameter under
// every named strategy, and the search accepts it.
#include <gtest/gtest.h>

#include <algorithm>

#include "cost/roofline.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "models/transformer.h"
#include "program/memory.h"
#include "program/verify.h"
#include "search/named/named_strategies.h"
#include "search/problem/build_problem.h"
#include "search/search.h"
#include "setting.h"
#include "sharding/read_strategy.h"

namespace hidup {
namespace {

const Mesh kTwo = {{"ranks", 2}};

Graph gpt_model() {
  Deck deck;
  deck.model = {.family = "gpt", .layers = 2, .hidden = 12, .ffn = 20, .heads = 3, .sequence = 7};
  deck.train->batch = 5;
  return build_model(deck, 31);
}

CostModel costs(double bandwidth) {
  return CostModel(roofline_profile(
      kTwo, {.flops = 1e10, .memory_bandwidth = 1e10, .links = {{bandwidth, 1e-6}}}));
}

// Returns the collectives of a phase on the table or its gradient.
std::vector<std::string> collectives_of_table(const Program& program, Phase phase) {
  const auto of_table = [&](ValueId id) {
    return program.value(id).name.starts_with("embedding.weight");
  };
  std::vector<std::string> found;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == phase && !collective_of(instruction.opcode).empty() &&
        std::ranges::any_of(instruction.inputs, of_table)) {
      found.emplace_back(name_of(instruction.opcode));
    }
  }
  return found;
}

struct ExpectedCollectives {
  const char* strategy;
  std::vector<std::string> forward, backward;
  const char* storage;
};

// The table is gathered once and stays in memory for the head's backward pass. Its gradient, a sum
// of both operations', is sent once.
TEST(TiedHead, MovesOnceUnderEveryStrategy) {
  const Graph graph = gpt_model();
  const TensorId table = graph.find("embedding.weight");
  const std::vector<ExpectedCollectives> all = {
      {"dp", {}, {"all_reduce"}, "R"},
      {"zero1", {}, {"reduce_scatter"}, "R"},
      {"fsdp", {"all_gather"}, {"reduce_scatter"}, "S(0)"},
      {"fsdp-kept", {"all_gather"}, {"reduce_scatter"}, "S(0)"},
      {"ep-deepspeed", {}, {"all_reduce"}, "R"},
      {"ep-fastmoe", {}, {"all_reduce"}, "R"},
      {"megatron", {}, {}, "S(0)"},  // by vocabulary for both
      {"megatron-sp", {}, {}, "S(0)"},
      {"ps", {"broadcast"}, {"reduce_scatter"}, "S(0)@0"},
  };
  for (const ExpectedCollectives& expected : all) {
    const Strategy strategy = named_strategy(expected.strategy, graph, kTwo);
    const auto stored = std::ranges::find(strategy.parameters, table, &ParameterStrategy::tensor);
    EXPECT_EQ(to_string(stored->storage), expected.storage) << expected.strategy;
    const Program program = lower(graph, strategy, simple_lowering(1));
    EXPECT_EQ(collectives_of_table(program, Phase::forward), expected.forward) << expected.strategy;
    EXPECT_EQ(collectives_of_table(program, Phase::backward), expected.backward)
        << expected.strategy;
    for (int64_t rank = 0; rank < 2; ++rank) {
      EXPECT_NO_THROW(verify(program, plan_memory(program, rank))) << expected.strategy;
    }
    const std::string text = print_strategy(graph, strategy);
    EXPECT_EQ(print_strategy(graph, parse_strategy(graph, kTwo, text, "file")), text);
  }
}

// The head decides the table's storage and is charged for it; the embedding is not.
TEST(TiedHead, IsChargedOnce) {
  const Graph graph = gpt_model();
  const BuiltProblem built = build_problem(graph, kTwo, costs(1e9), {});
  const auto charged = [&](const char* name) {
    const auto op = static_cast<size_t>(graph.tensor(graph.find(name)).producer);
    return std::ranges::any_of(built.problem.choices_of(op).choices, [](const Choice& choice) {
      return choice.gather_s + choice.sync_s + choice.step_s + choice.persistent_bytes > 0.0;
    });
  };
  EXPECT_TRUE(charged("head"));
  EXPECT_FALSE(charged("embedding"));
  const std::vector<int> first_choices(graph.ops().size(), 0);
  const Strategy strategy = to_strategy(graph, kTwo, built, {first_choices, {}});
  int parameters = 0;
  for (const Tensor& tensor : graph.tensors()) {
    parameters += tensor.role == Tensor::Role::parameter ? 1 : 0;
  }
  EXPECT_EQ(strategy.parameters.size(), static_cast<size_t>(parameters));
}

// The plan is not slower than the named strategies, and right for any rules of the two operations.
TEST(TiedHead, IsSearched) {
  const Graph graph = gpt_model();
  for (const double bandwidth : {1e6, 1e9, 1e12}) {
    const SearchOutcome outcome =
        searched(graph, kTwo, costs(bandwidth), {.lowering = simple_lowering(1)});
    for (const Candidate& candidate : outcome.candidates) {
      EXPECT_LE(outcome.step.seconds(), candidate.seconds);
      const Program program = lower(graph, candidate.strategy, simple_lowering(1));
      for (int64_t rank = 0; rank < 2; ++rank) {
        EXPECT_NO_THROW(verify(program, plan_memory(program, rank))) << candidate.strategy.name;
      }
    }
  }
}

}  // namespace
}  // namespace hidup
