#include "sharding/read_strategy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/check.h"
#include "models/transformer.h"
#include "search/named/named_strategies.h"
#include "small_deck.h"
#include "small_strategy.h"

namespace hidup {
namespace {

TEST(ReadStrategy, IsTheInverseOfPrinting) {
  const Graph graph = small_graph();
  EXPECT_EQ(print_strategy(graph, named_strategy("dp", graph, kMesh)), small_text());
  EXPECT_EQ(reprinted(graph, kMesh, small_text()), small_text());
}

struct Model {
  const char* name;
  MoeDeck moe;
};

class EveryStrategy : public testing::TestWithParam<Model> {};

TEST_P(EveryStrategy, PrintsWhatItParsed) {
  const Graph graph = build_model(small_deck_of("bert", GetParam().moe), 31);
  for (const Mesh& mesh : {Mesh{{"ranks", 1}}, Mesh{{"ranks", 3}}, Mesh{{"node", 2}, {"core", 4}},
                           Mesh{{"node", 3}, {"core", 1}}}) {
    for (const NamedStrategy& named : named_strategies()) {
      const Strategy strategy = named_strategy(named.name, graph, mesh);
      const std::string text = print_strategy(graph, strategy);
      const Strategy parsed = parse_strategy(graph, mesh, text, "s.yaml");
      EXPECT_EQ(print_strategy(graph, parsed), text) << named.name;
      EXPECT_EQ(strategy_hash(graph, parsed), strategy_hash(graph, strategy)) << named.name;
      EXPECT_EQ(parsed.defer_gradients, named.name == "ep-fastmoe");
      for (size_t op = 0; op < strategy.ops.size(); ++op) {
        EXPECT_EQ(parsed.ops[op].rules, strategy.ops[op].rules);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, EveryStrategy,
    testing::Values(
        Model{"dense", {}},
        Model{"top2", {.experts = 5, .every = 2, .router = "top2", .capacity_factor = 1.0}},
        Model{"hash", {.experts = 2, .every = 1, .router = "hash", .capacity_factor = 1.5}}),
    [](const auto& model) { return std::string(model.param.name); });

TEST(ReadStrategy, InputsAndOutputsMayBeLeftOut) {
  const Graph graph = small_graph();
  for (const char* part : {", inputs: [[S(0)], [S(0)]], outputs: [[P]]", ", outputs: [[P]]",
                           ", inputs: [[S(0)], [S(0)]]"}) {
    EXPECT_EQ(reprinted(graph, kMesh, edited(part, "")), small_text()) << part;
  }
}

TEST(ReadStrategy, KeysMayStandInAnyOrderAndOnLinesOfTheirOwn) {
  const std::string text = edited(
      "  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: "
      "[[S(0)]]}\n",
      "  # by hand\n  - rule:\n      - batch\n    op: y\n");
  EXPECT_EQ(reprinted(small_graph(), kMesh, text), small_text());
}

TEST(ReadStrategy, TakesOtherRulesAndStorage) {
  std::string text = edited("{op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}",
                            "{op: y, rule: [column]}");
  text.replace(text.find("storage: [R]"), 12, "storage: [S(1)@0]");
  text.replace(text.find("optimizer_state: [R]"), 20, "optimizer_state: [S(1)]");
  text.replace(text.find("overlapped"), 10, "deferred");
  const Strategy strategy = parse_strategy(small_graph(), kMesh, text, "s.yaml");
  EXPECT_EQ(to_string(input_layout(strategy.ops[1], 1)), "S(1)");
  EXPECT_EQ(to_string(output_layout(strategy.ops[1])), "S(2)");
  EXPECT_EQ(to_string(strategy.parameters[0].storage), "S(1)@0");
  EXPECT_EQ(to_string(strategy.parameters[0].optimizer_state), "S(1)");
  EXPECT_TRUE(strategy.defer_gradients);
}

// Format 2 has shares; format 1 has none.
TEST(ReadStrategy, TakesShares) {
  const Graph graph = small_graph();
  std::string text = edited("[batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n  - {op: y",
                            "[batch%1], inputs: [[S(0)%1], [R]], outputs: [[S(0)%1]]}\n  - {op: y");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  text.insert(text.find("name: dp"), "shares: {ranks: [[2, 1], [0, 3]]}\n");
  text.replace(text.find("storage: [R]"), 12, "storage: [S(1)%2]");
  text.replace(text.find("optimizer_state: [R]"), 20, "optimizer_state: [S(0)@1]");
  const Strategy strategy = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(strategy.mesh[0].shares, (std::vector<Share>{{2, 1}, {0, 3}}));
  EXPECT_EQ(to_string(strategy.ops[0].rules[0]), "batch%1");
  EXPECT_EQ(to_string(gradient_layout(strategy.ops[1], 0)), "S(0)");
  EXPECT_EQ(to_string(strategy.parameters[0].storage), "S(1)%2");
  EXPECT_EQ(print_strategy(graph, strategy), text);
  // A single rank needs format 2, but no share.
  text = edited("rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n  - {op: loss",
                "rule: [batch@1], inputs: [[S(0)@1], [R@1]], outputs: [[S(0)@1]]}\n  - {op: loss");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  EXPECT_EQ(reprinted(graph, kMesh, text), text);
  // A rule that cuts nothing may leave out ranks; its shares of the same ranks count as one.
  text = edited("rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n  - {op: loss",
                "rule: [replicate%2], inputs: [[R%2], [R@1]], outputs: [[R]]}\n  - {op: loss");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  text.insert(text.find("name: dp"), "shares: {ranks: [[1, 3], [0, 3]]}\n");
  EXPECT_THROW(parse_strategy(graph, kMesh, text, "s.yaml"), Error);
  text.replace(text.find("outputs: [[R]]"), 14, "outputs: [[R@1]]");
  const Strategy left_out = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(to_string(input_layout(left_out.ops[1], 0)), "R@1");
  text.replace(text.find("replicate%2"), 11, "replicate%1");
  EXPECT_THROW(parse_strategy(graph, kMesh, text, "s.yaml"), Error);  // all ranks must have it
}

TEST(ReadStrategy, TakesWhatComesAndGoes) {
  const Graph graph = small_graph();
  std::string text = edited("outputs: [[S(0)]]}\n  - {op: loss",
                            "outputs: [[S(0)]], recompute: true}\n  - {op: loss");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  text.insert(text.find("gradients:"), "accumulate: 3\n");
  text.replace(text.find("optimizer_state: [R]}"), 21,
               "optimizer_state: [R], reshard_after_forward: true}");
  const Strategy strategy = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(strategy.accumulate, 3);
  EXPECT_FALSE(strategy.ops[0].recompute);
  EXPECT_TRUE(strategy.ops[1].recompute);
  EXPECT_EQ(strategy.parameters[0].residency, Residency::pass);
  EXPECT_EQ(strategy.parameters[1].residency, Residency::step);
  EXPECT_EQ(print_strategy(graph, strategy), text);
  EXPECT_NE(strategy_hash(graph, strategy),
            strategy_hash(graph, parse_strategy(graph, kMesh, small_text(), "s.yaml")));
  // Defaults from before these choices existed are not written.
  text.replace(text.find("accumulate: 3"), 13, "accumulate: 1");
  text.replace(text.find("recompute: true"), 15, "recompute: false");
  text.replace(text.find("reshard_after_forward: true"), 27, "reshard_after_forward: false");
  EXPECT_EQ(reprinted(graph, kMesh, text), small_text());
}

TEST(ReadStrategy, WarnsOnceOfTheOldSpellingOfReshardAfterForward) {
  const Graph graph = small_graph();
  std::string text = small_text();
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  for (size_t at = 0; (at = text.find("optimizer_state: [R]}", at)) != std::string::npos; ++at) {
    text.replace(at, 21, "optimizer_state: [R], kept: pass}");
  }
  testing::internal::CaptureStderr();
  const Strategy strategy = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "hidup: warning: s.yaml:13:61: kept is called reshard_after_forward now: pass is true, step "
      "is false\n");
  for (const ParameterStrategy& parameter : strategy.parameters) {
    EXPECT_EQ(parameter.residency, Residency::pass);
  }
}

// Losses of routers are of the whole batch.
TEST(ReadStrategy, GroupsNeedLossesThatAddUp) {
  Deck deck =
      small_deck_of("bert", {.experts = 3, .every = 1, .router = "top1", .capacity_factor = 1.0});
  deck.train->batch = 6;
  for (const double balance_loss : {0.0, 0.1}) {
    deck.model->moe.balance_loss = balance_loss;
    const Graph graph = build_model(deck, 31);
    Strategy strategy = named_strategy("dp", graph, kMesh);
    strategy.accumulate = 2;
    const std::string text = print_strategy(graph, strategy);
    if (balance_loss == 0.0) {
      EXPECT_EQ(parse_strategy(graph, kMesh, text, "s.yaml").accumulate, 2);
    } else {
      EXPECT_THROW(parse_strategy(graph, kMesh, text, "s.yaml"), Error);
    }
  }
}

// The starts of the forward pass's stages and the prediction change neither the strategy nor its
// hash.
TEST(ReadStrategy, KeepsNotes) {
  const Graph graph = small_graph();
  const std::string text = small_text() +
                           "stages:\n  - x\n  - loss\n"
                           "predicted: {iteration_s: 0.0125, compute_s: 0.01, comm_s: 0.0075, "
                           "exposed_comm_s: 0.0025, peak_bytes: 123456789012}\n";
  const Strategy strategy = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(strategy.stages, (std::vector<OpId>{0, 2}));
  ASSERT_TRUE(strategy.predicted.has_value());
  EXPECT_EQ(strategy.predicted->exposed_comm_s, 0.0025);
  EXPECT_EQ(strategy.predicted->peak_bytes, 123456789012);
  EXPECT_EQ(print_strategy(graph, strategy), text);
  EXPECT_EQ(strategy_hash(graph, strategy),
            strategy_hash(graph, parse_strategy(graph, kMesh, small_text(), "s.yaml")));
}

TEST(ReadStrategy, WhatIsNoMapIsRefused) {
  for (const char* text : {"", "dp", "- dp\n"}) {
    try {
      parse_strategy(small_graph(), kMesh, text, "s.yaml");
      FAIL() << "accepted: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_STREQ(error.what(),
                   "s.yaml:1:1: expected a strategy: a map that begins with format_version");
    }
  }
}

TEST(ReadStrategy, SaysWhichGraphItWasMadeFor) {
  const Graph graph = small_graph();
  const std::string text = edited(fmt::format("{:016x}", graph_hash(graph)), "0123456789abcdef");
  try {
    parse_strategy(graph, kMesh, text, "s.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              fmt::format("s.yaml:2:13: graph_hash: expected {:016x}, found 0123456789abcdef: the "
                          "strategy was made for another graph (model sizes, batch or vocabulary)",
                          graph_hash(graph)));
  }
}

// One call reports all problems, in the order of the text.
TEST(ReadStrategy, ReportsAllProblems) {
  std::string text = edited("{op: y, rule: [batch]", "{op: y, rule: [colum]");
  text.replace(text.find("{op: loss, rule: [batch]"), 24, "{op: loss, rule: [rows]");
  text.replace(text.find("{name: w, storage: [R]"), 22, "{name: w, storage: [P]");
  try {
    parse_strategy(small_graph(), kMesh, text, "s.yaml");
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    const size_t first = message.find("s.yaml:10:20: y cannot");
    const size_t second = message.find("s.yaml:11:23: loss cannot");
    const size_t third = message.find("s.yaml:14:24: w: storage");
    EXPECT_TRUE(first < second && second < third && third != std::string::npos) << message;
  }
}

// On two axes an operation has two rules, and every tensor two placements.
TEST(ReadStrategy, WantsARulePerAxis) {
  const Graph graph = small_graph();
  const Mesh mesh = {{"node", 2}, {"core", 2}};
  std::string text = print_strategy(graph, named_strategy("dp", graph, mesh));
  const std::string line =
      "{op: y, rule: [batch, batch], inputs: [[S(0), S(0)], [R, R]], outputs: "
      "[[S(0), S(0)]]}";
  const size_t at = text.find(line);
  ASSERT_NE(at, std::string::npos) << text;
  std::string mixed = text;
  mixed.replace(at, line.size(), "{op: y, rule: [sequence, row]}");
  const Strategy strategy = parse_strategy(graph, mesh, mixed, "s.yaml");
  EXPECT_EQ(to_string(input_layout(strategy.ops[1], 0)), "S(1) S(2)");
  EXPECT_EQ(to_string(output_layout(strategy.ops[1])), "S(1) P");
  text.replace(at, line.size(), "{op: y, rule: [batch]}");
  EXPECT_THROW(parse_strategy(graph, mesh, text, "s.yaml"), Error);
}

}  // namespace
}  // namespace hidup
