#include "sharding/read_strategy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/check.h"
#include "graph/text.h"
#include "models/transformer.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

Graph small_graph() {
  return parse_graph(R"(graph small
input tokens : i32[4, 6]
input targets : i32[4, 6]
parameter table : f32[10, 8] = uniform(0.1) decay
parameter w : f32[8, 10] = uniform(0.1) decay
x = embedding(tokens, table)
y = matmul(x, w)
loss = cross_entropy(y, targets)
)",
                     "small");
}

const Mesh kMesh = {{"ranks", 2}};

// Line numbers in the tests below are those of this text.
std::string small_text() {
  return fmt::format(R"(format_version: 1
graph_hash: {:016x}
mesh:
  - {{name: ranks, size: 2}}
name: dp
microbatches: 1
gradients: overlapped
operations:
  - {{op: x, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}}
  - {{op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}}
  - {{op: loss, rule: [batch], inputs: [[S(0)], [S(0)]], outputs: [[P]]}}
parameters:
  - {{name: table, storage: [R], optimizer_state: [R]}}
  - {{name: w, storage: [R], optimizer_state: [R]}}
)",
                     graph_hash(small_graph()));
}

std::string edited(const std::string& from, const std::string& to) {
  std::string text = small_text();
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string reprinted(const Graph& graph, const Mesh& mesh, const std::string& text) {
  return print_strategy(graph, parse_strategy(graph, mesh, text, "s.yaml"));
}

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
  Deck deck;
  deck.model = {.family = "bert",
                .layers = 2,
                .hidden = 12,
                .ffn = 20,
                .heads = 3,
                .sequence = 7,
                .dropout = 0.1,
                .moe = GetParam().moe};
  deck.train.batch = 5;
  const Graph graph = build_model(deck, 31);
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

// Shares are of format 2; files of format 1 have none.
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
  // A rank alone needs no share, but the format.
  text = edited("rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n  - {op: loss",
                "rule: [batch@1], inputs: [[S(0)@1], [R@1]], outputs: [[S(0)@1]]}\n  - {op: loss");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  EXPECT_EQ(reprinted(graph, kMesh, text), text);
  // A rule that cuts nothing may leave ranks out; shares of the same ranks are one.
  text = edited("rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n  - {op: loss",
                "rule: [replicate%2], inputs: [[R%2], [R@1]], outputs: [[R]]}\n  - {op: loss");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  text.insert(text.find("name: dp"), "shares: {ranks: [[1, 3], [0, 3]]}\n");
  EXPECT_THROW(parse_strategy(graph, kMesh, text, "s.yaml"), Error);
  text.replace(text.find("outputs: [[R]]"), 14, "outputs: [[R@1]]");
  const Strategy left_out = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(to_string(input_layout(left_out.ops[1], 0)), "R@1");
  text.replace(text.find("replicate%2"), 11, "replicate%1");
  EXPECT_THROW(parse_strategy(graph, kMesh, text, "s.yaml"), Error);  // of all ranks
}

TEST(ReadStrategy, TakesWhatComesAndGoes) {
  const Graph graph = small_graph();
  std::string text = edited("outputs: [[S(0)]]}\n  - {op: loss",
                            "outputs: [[S(0)]], recompute: true}\n  - {op: loss");
  text.replace(text.find("format_version: 1"), 17, "format_version: 2");
  text.insert(text.find("gradients:"), "accumulate: 3\n");
  text.replace(text.find("optimizer_state: [R]}"), 21, "optimizer_state: [R], kept: pass}");
  const Strategy strategy = parse_strategy(graph, kMesh, text, "s.yaml");
  EXPECT_EQ(strategy.accumulate, 3);
  EXPECT_FALSE(strategy.ops[0].recompute);
  EXPECT_TRUE(strategy.ops[1].recompute);
  EXPECT_EQ(strategy.parameters[0].kept, Kept::pass);
  EXPECT_EQ(strategy.parameters[1].kept, Kept::step);
  EXPECT_EQ(print_strategy(graph, strategy), text);
  EXPECT_NE(strategy_hash(graph, strategy),
            strategy_hash(graph, parse_strategy(graph, kMesh, small_text(), "s.yaml")));
  // What all strategies had before there was a choice is not written.
  text.replace(text.find("accumulate: 3"), 13, "accumulate: 1");
  text.replace(text.find("recompute: true"), 15, "recompute: false");
  text.replace(text.find("kept: pass"), 10, "kept: step");
  EXPECT_EQ(reprinted(graph, kMesh, text), small_text());
}

// Where the forward pass's stages begin, and what was predicted, change nothing; not the hash
// either.
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

struct Edit {
  const char* from;
  const char* to;
  const char* message;  // of one problem, from its place on
};

class IllegalEdit : public testing::TestWithParam<Edit> {};

TEST_P(IllegalEdit, IsRefusedWithItsPlaceAndTheReason) {
  try {
    parse_strategy(small_graph(), kMesh, edited(GetParam().from, GetParam().to), "s.yaml");
    FAIL() << "accepted: " << GetParam().to;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    const std::string message = "\n" + std::string(error.what());
    EXPECT_NE(message.find("\ns.yaml:" + std::string(GetParam().message)), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Head, IllegalEdit,
    testing::Values(
        Edit{"format_version: 1", "format_version: 3",
             "1:17: format_version: expected 1 or 2, found 3"},
        Edit{"graph_hash: ", "graph_hash: 0", "2:13: graph_hash: expected "},
        Edit{"size: 2", "size: 4",
             "4:3: mesh: expected ranks=2 of the cluster and its ranks, found ranks=4"},
        Edit{"name: ranks", "name: nodes",
             "4:3: mesh: expected ranks=2 of the cluster and its ranks, found nodes=2"},
        Edit{"  - {name: ranks, size: 2}\n",
             "  - {name: ranks, size: 2}\n  - {name: cores, size: 2}\n",
             "4:3: mesh: expected ranks=2 of the cluster and its ranks, found ranks=2 cores=2"},
        Edit{"size: 2", "sise: 2", "4:19: unknown key sise: did you mean size?"},
        Edit{"name: dp", "name: [dp]", "5:7: name: expected a word"},
        Edit{"name: dp", "name: \"d\\e[31mp\"",
             "5:7: name: expected a word of at most 200 characters, found d\\x1b[31mp"},
        Edit{"microbatches: 1", "microbatches: 0", "6:15: microbatches: expected "},
        Edit{"microbatches: 1", "microbatches: 1.5", "6:15: microbatches: expected "},
        Edit{"microbatches: 1", "microbatches: [1]", "6:15: microbatches: expected "},
        Edit{"microbatches: 1", "microbatches: 5",
             "6:15: microbatches: expected at most 4, the sequences of a step, found 5"},
        Edit{"microbatches: 1", "microbatches: 2000000000",
             "6:15: microbatches: expected a whole number from 1 to 256, found 2000000000"},
        Edit{"overlapped", "overlaped", "7:12: gradients: expected overlapped or deferred"},
        Edit{"microbatches: 1\n", "", "1:1: microbatches is missing"},
        Edit{"microbatches", "microbatch",
             "6:1: unknown key microbatch: did you mean microbatches?"},
        Edit{"name: dp\n", "name: dp\nauthor: me\n", "6:1: unknown key author; known: "}));

INSTANTIATE_TEST_SUITE_P(
    Rules, IllegalEdit,
    testing::Values(
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [\"\\e[2J\"]",
             "10:20: y cannot be sharded by \\x1b[2J; legal rules: "},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [colum]",
             "10:20: y cannot be sharded by colum: did you mean column?; legal rules: replicate, "
             "batch, sequence, row, column, partial"},
        // A rule that another operation has.
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [vocabulary]",
             "10:20: y cannot be sharded by vocabulary; legal rules: replicate, batch, sequence, "
             "row, column, partial"},
        Edit{"{op: x, rule: [batch]", "{op: x, rule: [row]",
             "9:20: x cannot be sharded by row; legal rules: replicate, batch, sequence, column, "
             "vocabulary"},
        Edit{"{op: loss, rule: [batch]", "{op: loss, rule: [head]",
             "11:23: loss cannot be sharded by head; legal rules: replicate, batch, sequence, "
             "vocabulary"},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: ['']",
             "10:20: y cannot be sharded by nothing"},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: batch",
             "10:19: y: rule: expected a list of 1 rule(s), one per axis"},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [batch, row]",
             "10:19: y: rule: expected a list of 1 rule(s), one per axis"},
        Edit{"{op: y, rule: [batch], ", "{op: y, ", "10:5: rule is missing"},
        Edit{"{op: y, rule: [batch]", "{op: y, rules: [batch]",
             "10:13: unknown key rules: did you mean rule?"},
        Edit{"{op: y, ", "{op: y, weight: 1, ", "10:13: unknown key weight"}));

INSTANTIATE_TEST_SUITE_P(
    Operations, IllegalEdit,
    testing::Values(
        Edit{"  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n", "",
             "9:3: operations: expected a list of the graph's 3 operations, found 2"},
        Edit{"op: x", "op: y", "9:5: op: expected x, the next operation of the graph, found y"},
        Edit{"{op: y, ", "{", "10:5: op: expected y, the next operation of the graph, found "},
        Edit{"  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n", "  - y\n",
             "10:5: op is missing"},
        // y comes before x.
        Edit{"  - {op: x, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n"
             "  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n",
             "  - {op: y, rule: [batch]}\n  - {op: x, rule: [batch]}\n",
             "10:5: op: expected y, the next operation of the graph, found x"}));

INSTANTIATE_TEST_SUITE_P(
    Placements, IllegalEdit,
    testing::Values(
        Edit{"{op: y, rule: [batch], inputs: [[S(0)], [R]]",
             "{op: y, rule: [batch], inputs: [[S(1)], [R]]",
             "10:36: y: the rule batch has the inputs [[S(0)], [R]]; change the rule, and leave "
             "inputs and outputs out or make them the rule's"},
        Edit{"outputs: [[P]]", "outputs: [[R]]",
             "11:66: loss: the rule batch has the outputs [[P]]"},
        Edit{"outputs: [[P]]", "outputs: [[P], [P]]",
             "11:66: loss: the rule batch has the outputs [[P]]"},
        Edit{"outputs: [[P]]", "outputs: [[S]]",
             "11:68: loss: outputs: expected R, S(dimension) or P, found S"},
        Edit{"outputs: [[P]]", "outputs: [[[P]]]",
             "11:68: loss: outputs: expected R, S(dimension) or P, found nothing"},
        Edit{"outputs: [[P]]", "outputs: [[P, P]]",
             "11:67: loss: outputs: expected a list of 1 placement(s), one per axis"},
        Edit{"outputs: [[P]]", "outputs: P", "11:66: loss: the rule batch has the outputs [[P]]"}));

INSTANTIATE_TEST_SUITE_P(
    Storage, IllegalEdit,
    testing::Values(
        Edit{"{name: w, storage: [R]", "{name: w, storage: [P]",
             "14:24: w: storage cannot be P: a parameter of 2 dimension(s) is stored R or S(0) to "
             "S(1)"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: [S(2)]",
             "14:24: w: storage cannot be S(2): a parameter of 2 dimension(s)"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: [S(2)@0]",
             "14:24: w: storage cannot be S(2)@0"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: [column]",
             "14:25: w: storage: expected R, S(dimension) or P, found column"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: R",
             "14:24: w: storage: expected a list of 1 placement(s), one per axis"},
        Edit{"{name: w, storage: [R], optimizer_state: [R]}",
             "{name: w, storage: [R], optimizer_state: [P]}",
             "14:46: w: optimizer_state cannot be P"},
        Edit{"{name: w, storage: [R], optimizer_state: [R]}", "{name: w, storage: [R]}",
             "14:5: optimizer_state is missing"},
        Edit{"name: w", "name: v",
             "14:5: name: expected w, the next parameter of the graph, found v"},
        Edit{"  - {name: w, storage: [R], optimizer_state: [R]}\n", "",
             "13:3: parameters: expected a list of the graph's 2 parameters, found 1"}));

// Where the file begins with format_version: 1 that is a problem besides.
INSTANTIATE_TEST_SUITE_P(
    ComingAndGoing, IllegalEdit,
    testing::Values(
        Edit{"gradients: overlapped", "accumulate: 2\ngradients: overlapped",
             "7:13: accumulate: files of format_version 1 have none; expected format_version: 2"},
        Edit{"gradients: overlapped", "accumulate: none\ngradients: overlapped",
             "7:13: accumulate: expected a whole number from 1 to 256, found none"},
        Edit{"gradients: overlapped", "accumulate: 5\ngradients: overlapped",
             "7:13: accumulate: expected at most 4 microbatches in all, the sequences of a step, "
             "found 5 groups of 1"},
        Edit{"gradients: overlapped", "acumulate: 2\ngradients: overlapped",
             "7:1: unknown key acumulate: did you mean accumulate?"},
        Edit{"op: y, rule: [batch]", "op: y, recompute: true, rule: [batch]",
             "10:24: recompute: files of format_version 1 have none"},
        Edit{"op: y, rule: [batch]", "op: y, recompute: tru, rule: [batch]",
             "10:24: y: recompute: expected false or true, found tru: did you mean true?"},
        Edit{"op: y, rule: [batch]", "op: y, recomputed: true, rule: [batch]",
             "10:13: unknown key recomputed: did you mean recompute?"},
        Edit{"op: loss, rule: [batch]", "op: loss, recompute: true, rule: [batch]",
             "11:27: loss: recompute: the loss is computed once"},
        Edit{"{name: w, ", "{name: w, kept: pass, ",
             "14:21: kept: files of format_version 1 have none; expected format_version: 2"},
        Edit{"{name: w, ", "{name: w, kept: pas, ",
             "14:21: w: kept: expected step or pass, found pas: did you mean pass?"},
        Edit{"{name: w, ", "{name: w, kep: pass, ", "14:15: unknown key kep: did you mean kept?"}));

INSTANTIATE_TEST_SUITE_P(
    Notes, IllegalEdit,
    testing::Values(
        Edit{"name: dp\n", "name: dp\nstages: [x, z]\n",
             "6:13: stages: the graph has no operation z"},
        // A parameter is no operation.
        Edit{"name: dp\n", "name: dp\nstages: [table]\n",
             "6:10: stages: the graph has no operation table"},
        Edit{"name: dp\n", "name: dp\nstages: x\n", "6:9: stages: expected a list of operations"},
        Edit{"name: dp\n", "name: dp\npredicted: {iteration_s: 1}\n", "6:12: compute_s is missing"},
        Edit{"name: dp\n",
             "name: dp\npredicted: {iteration_s: soon, compute_s: 1, comm_s: 1, exposed_comm_s: 1, "
             "peak_bytes: 1}\n",
             "6:26: iteration_s: expected "},
        Edit{"name: dp\n",
             "name: dp\npredicted: {iteration_s: 1, compute_s: 1, comm_s: 1, exposed_comm_s: 1, "
             "peak_bytes: 1.5}\n",
             "6:85: peak_bytes: expected a whole number"}));

INSTANTIATE_TEST_SUITE_P(
    Malformed, IllegalEdit,
    testing::Values(Edit{"name: dp", "name: [dp", "6:"}, Edit{"name: dp", "name: *dp", "5:7: "},
                    Edit{"name: dp", "name: dp\nname: dp", "6:1: name is given twice"},
                    Edit{"op: y, rule: [batch]", "op: y, rule: [batch], rule: [row]",
                         "10:28: rule is given twice"},
                    Edit{"name: dp", "\tname: dp", "5:"}));

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

// One run reports everything, in the order of the text.
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
