#include "app/expert_loads.h"

#include <gtest/gtest.h>

#include "app/planning.h"
#include "core/check.h"
#include "cost/simulate.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "program/lower.h"
#include "program/work.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

constexpr int64_t kVocab = 20;

Deck deck_with_experts() {
  Deck deck;
  deck.model = {.family = "bert",
                .layers = 4,
                .hidden = 64,
                .ffn = 128,
                .heads = 4,
                .sequence = 16,
                .moe = {.experts = 4, .every = 2, .router = "top1", .load = "loads.txt"}};
  deck.train->batch = 8;
  return deck;
}

std::string refusal_of(const std::string& text) {
  try {
    with_expert_loads(deck_with_experts(), text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ExpertLoads, ALineHasThoseOfALayer) {
  const Deck deck = with_expert_loads(deck_with_experts(), "# a comment\n1 2, 3,2\n\n0 0 8 0\n");
  const auto& loads = deck.model->moe.loads;
  ASSERT_EQ(loads.size(), 2);
  EXPECT_EQ(*loads[0], (std::vector<double>{0.5, 1.0, 1.5, 1.0}));
  EXPECT_EQ(*loads[1], (std::vector<double>{0.0, 0.0, 4.0, 0.0}));
}

TEST(ExpertLoads, BadLinesAreErrors) {
  EXPECT_EQ(refusal_of("1 2 3 4\n1 2 x 4\n"),
            "loads.txt:2: expected the tokens of an expert, a number of at least 0, found x");
  EXPECT_EQ(refusal_of("1 2 -3 4\n"),
            "loads.txt:1: expected the tokens of an expert, a number of at least 0, found -3");
  EXPECT_EQ(refusal_of("1 2 3\n"),
            "loads.txt:1: expected 4 numbers, one per expert (model.moe.experts), found 3");
  EXPECT_EQ(refusal_of("0 0 0 0\n"), "loads.txt:1: no expert has a token");
  EXPECT_EQ(refusal_of("# nothing\n"),
            "loads.txt: expected a line per layer with experts, found none");
}

Deck deck_with_trace() {
  Deck deck = deck_with_experts();
  deck.model->moe.load = "";
  deck.data->trace = "trace.txt";
  return deck;
}

std::string trace_refusal_of(const std::string& text) {
  try {
    with_trace(deck_with_trace(), text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RecordedLoads, AnEmptyLineEndsASample) {
  const Deck deck =
      with_trace(deck_with_trace(), "\n# two layers\n1 1 2 0\n1 1 1 1\n\n\n3 1 0 0\n0 0 0 1\n\n");
  EXPECT_EQ(*deck.data->traced, (std::vector<std::vector<double>>{
                                    {1, 1, 2, 0}, {1, 1, 1, 1}, {3, 1, 0, 0}, {0, 0, 0, 4}}));
}

TEST(RecordedLoads, OfOtherModelsAreErrors) {
  const std::string wanted = ": expected 2 line(s) in a sample, one per layer with experts, found ";
  EXPECT_EQ(trace_refusal_of("1 1 1 1\n"), "trace.txt:1" + wanted + "1");
  EXPECT_EQ(trace_refusal_of("1 1 1 1\n1 1 1 1\n1 1 1 1\n"), "trace.txt:3" + wanted + "3");
  EXPECT_EQ(trace_refusal_of("1 1 1 1\n1 1 1 1\n\n1 1 1 1\n\n1 1 1 1\n1 1 1 1\n"),
            "trace.txt:4" + wanted + "1");
  EXPECT_EQ(trace_refusal_of("1 1 1 1\n1 1 1 1 1\n"),
            "trace.txt:2: expected 4 numbers, one per expert (model.moe.experts), found 5");
  EXPECT_EQ(trace_refusal_of("1 1 1 1\n1 1 1 e\n"),
            "trace.txt:2: expected the tokens of an expert, a number of at least 0, found e");
  EXPECT_EQ(trace_refusal_of("\n"),
            "trace.txt: expected a line per layer with experts, found none");
}

TEST(ExpertLoads, TheReportComparesWithThoseOfThePrediction) {
  using Largest = std::vector<double>;
  Deck deck = deck_with_experts();
  EXPECT_EQ(expected_of_experts(with_expert_loads(deck, "1 2 3 2\n0 0 8 0\n")).largest,
            (Largest{1.5, 4.0}));
  deck.model->moe.load = "";
  EXPECT_EQ(expected_of_experts(deck).largest, Largest{1.0});
  deck.model->moe.capacity_factor = 1.25;
  EXPECT_EQ(expected_of_experts(deck).largest, Largest{});
}

// Two ranks have two experts each. The first product of each layer with experts has this work.
std::vector<int64_t> rows_on_ranks(const std::string& loads) {
  const Deck deck = with_expert_loads(deck_with_experts(), loads);
  const Graph graph = make_graph(deck, "", kVocab);
  const Program program =
      lower(graph, named_strategy("ep-fastmoe", graph, {{"ranks", 2}}), lowering_options(deck));
  std::vector<int64_t> rows;
  for (const Instruction& instruction : program.instructions) {
    const bool counts = instruction.opcode == Opcode::expert_matmul &&
                        instruction.name.find("up") != std::string::npos;
    for (int64_t rank = 0; counts && rank < 2; ++rank) {
      const Sizes sizes = work_of(program, instruction, rank).sizes;
      rows.push_back(sizes[0] * sizes[1]);
    }
  }
  return rows;
}

// 8 sequences of 16 tokens choose one expert each.
TEST(ExpertLoads, RanksHaveTheRowsOfTheirExperts) {
  EXPECT_EQ(rows_on_ranks("1 1 1 1\n"), (std::vector<int64_t>{64, 64, 64, 64}));
  EXPECT_EQ(rows_on_ranks("4 2 1 1\n0 0 0 5\n"), (std::vector<int64_t>{96, 32, 0, 128}));
}

}  // namespace
}  // namespace hidup
