// Hints as text, and strategies that keep or break them.
#include "sharding/hints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/check.h"
#include "deck/model_deck.h"
#include "deck/train_deck.h"
#include "models/transformer.h"
#include "search/named/named_strategies.h"
#include "token_graph.h"

namespace hidup {
namespace {

const Mesh kOneAxis = {{"ranks", 2}};
const Mesh kTwoAxes = {{"node", 2}, {"core", 2}};

Graph hinted_graph() {
  return token_graph(R"(parameter table : f32[10, 8] = uniform(0.1) decay
parameter up.0 : f32[8, 8] = uniform(0.1) decay
parameter up.1 : f32[8, 10] = uniform(0.1) decay
x = embedding(tokens, table)
y.0 = matmul(x, up.0)
y.1 = matmul(y.0, up.1)
loss = cross_entropy(y.1, targets)
)");
}

// Returns the pinned rules, such as "y.0 column, y.1 -, ...".
std::string pinned(const Graph& graph, const Hints& hints) {
  std::string text;
  for (size_t op = 0; op < hints.ops.size(); ++op) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", graph.op_name(static_cast<OpId>(op)));
    for (const std::optional<Rule>& rule : hints.ops[op].rules) {
      text += " " + (rule ? rule->name : "-");
    }
  }
  return text;
}

std::string pinned(const std::string& text, const Mesh& mesh = kOneAxis) {
  const Graph graph = hinted_graph();
  return pinned(graph, read_hints(graph, mesh, text, "h.yaml"));
}

TEST(Hints, PinChoicesOfMemory) {
  const Graph graph = hinted_graph();
  const Hints hints =
      read_hints(graph, kOneAxis,
                 "accumulate: 2\n"
                 "operations: [{op: 'y.*', recompute: true}, {op: x, rule: [batch]}, "
                 "{op: y.1, recompute: false}]\n"
                 "parameters: [{name: 'up.*', reshard_after_forward: true}]",
                 "h.yaml");
  EXPECT_EQ(pinned(graph, hints), "x batch, y.0 -, y.1 -, loss -");
  Strategy strategy = named_strategy("dp", graph, kOneAxis);
  const auto broken = [&] { return broken_hint(graph, hints, strategy); };
  EXPECT_EQ(broken(), "the hints ask for 2 groups of microbatches, not 1");
  strategy.accumulate = 2;
  EXPECT_EQ(broken(), "the hints ask for y.0 recomputed");
  strategy.ops[1].recompute = strategy.ops[2].recompute = true;
  EXPECT_EQ(broken(), "the hints ask for y.1 not recomputed");
  strategy.ops[2].recompute = false;
  EXPECT_EQ(broken(), "the hints ask for up.0: reshard_after_forward: true, not false");
  strategy = with_memory_hints(hints, named_strategy("dp", graph, kOneAxis));
  EXPECT_EQ(broken(), "");
  EXPECT_EQ(strategy.parameters[0].residency,
            Residency::step);  // the table, which the hints do not name
  EXPECT_FALSE(strategy.ops[0].recompute);
}

TEST(Hints, AWholeStrategyPinsEverything) {
  const Graph graph = hinted_graph();
  for (const Mesh& mesh : {kOneAxis, kTwoAxes}) {
    for (const NamedStrategy& named : named_strategies()) {
      Strategy strategy = named_strategy(named.name, graph, mesh);
      if (strategy.schedule) {  // no search looks for pipelines
        EXPECT_THROW(read_hints(graph, mesh, print_strategy(graph, strategy), "h.yaml"), Error);
        continue;
      }
      strategy.stages = {0, 2};  // notes, which change nothing
      strategy.predicted = PredictedStep{.iteration_s = 1.0};
      const Hints hints = read_hints(graph, mesh, print_strategy(graph, strategy), "h.yaml");
      EXPECT_EQ(broken_hint(graph, hints, strategy), "") << named.name;
      for (size_t op = 0; op < strategy.ops.size(); ++op) {
        for (size_t axis = 0; axis < mesh.size(); ++axis) {
          EXPECT_EQ(hints.ops[op].rules[axis], strategy.ops[op].rules[axis]);
        }
      }
      for (const ParameterStrategy& parameter : strategy.parameters) {
        const ParameterHint* hint = hints.of_parameter(parameter.tensor);
        ASSERT_NE(hint, nullptr);
        EXPECT_EQ(hint->storage, parameter.storage);
        EXPECT_EQ(hint->optimizer_state, parameter.optimizer_state);
      }
      EXPECT_EQ(hints.microbatches, 1);
      EXPECT_EQ(hints.defer_gradients, strategy.defer_gradients);
    }
  }
}

TEST(Hints, AnyPartMayBeMissing) {
  EXPECT_EQ(pinned("operations: [{op: y.1, rule: [row]}]"), "x -, y.0 -, y.1 row, loss -");
  EXPECT_EQ(pinned("operations: [{op: y.1}]"), "");
  EXPECT_EQ(pinned("microbatches: 2"), "");
  EXPECT_EQ(pinned("operations: [{op: x, rule: [~, column]}]", kTwoAxes),
            "x - column, y.0 - -, y.1 - -, loss - -");
  const Graph graph = hinted_graph();
  const Hints hints = read_hints(
      graph, kOneAxis, "{microbatches: 4, parameters: [{name: up.1, storage: [S(1)]}]}", "h.yaml");
  EXPECT_EQ(hints.microbatches, 4);
  EXPECT_FALSE(hints.defer_gradients);
  EXPECT_EQ(hints.of_operation(0), nullptr);
  const ParameterHint* up = hints.of_parameter(graph.find("up.1"));
  ASSERT_NE(up, nullptr);
  EXPECT_EQ(up->storage, Layout{Placement::shard(1)});
  EXPECT_FALSE(up->optimizer_state);
  EXPECT_FALSE(hints.of_parameter(graph.find("table"))->storage);
  EXPECT_FALSE(hints.empty());
  EXPECT_TRUE(read_hints(graph, kOneAxis, "{operations: []}", "h.yaml").empty());
}

TEST(Hints, PatternsStandForSeveral) {
  EXPECT_EQ(pinned("operations: [{op: 'y.*', rule: [row]}]"), "x -, y.0 row, y.1 row, loss -");
  EXPECT_EQ(pinned("operations: [{op: '?.1', rule: [row]}]"), "x -, y.0 -, y.1 row, loss -");
  // The later hint has precedence on the axes that it names.
  EXPECT_EQ(pinned("operations: [{op: '*', rule: [batch]}, {op: y.1, rule: [column]}]"),
            "x batch, y.0 batch, y.1 column, loss batch");
  EXPECT_EQ(
      pinned("operations: [{op: '*', rule: [batch, batch]}, {op: y.1, rule: [~, row]}]", kTwoAxes),
      "x batch batch, y.0 batch batch, y.1 batch row, loss batch batch");
  const Graph graph = hinted_graph();
  const Hints hints = read_hints(graph, kOneAxis,
                                 "parameters: [{name: 'up.*', optimizer_state: [S(0)]}]", "h.yaml");
  EXPECT_TRUE(hints.of_parameter(graph.find("up.0"))->optimizer_state);
  EXPECT_TRUE(hints.of_parameter(graph.find("up.1"))->optimizer_state);
  EXPECT_FALSE(hints.of_parameter(graph.find("table"))->optimizer_state);
}

// Hints for a model may leave out the number of the layer.
TEST(Hints, ALayersNumberMayBeLeftOut) {
  Deck deck;
  deck.model = {.family = "bert", .layers = 3, .hidden = 12, .ffn = 20, .heads = 3, .sequence = 7};
  deck.train->batch = 5;
  const Graph graph = build_model(deck, 31);
  const Hints hints = read_hints(graph, kOneAxis,
                                 "operations: [{op: 'layers.*.ffn.up', rule: [column]}]", "h.yaml");
  int pins = 0;
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    pins += hints.of_operation(op)->rules[0] ? 1 : 0;
  }
  EXPECT_EQ(pins, 3);
}

struct Bad {
  const char* text;
  const char* message;  // of one problem, from its place on
};

class BadHints : public testing::TestWithParam<Bad> {};

TEST_P(BadHints, AreRefusedWithTheirPlaceAndTheReason) {
  try {
    read_hints(hinted_graph(), kOneAxis, GetParam().text, "h.yaml");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(error.what(), "h.yaml:" + std::string(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Names, BadHints,
    testing::Values(
        Bad{"operations: [{op: y1, rule: [row]}]",
            "1:19: op: expected an operation of the graph, or a pattern (*, ?) of some; found y1: "
            "did you mean y.1?"},
        Bad{"operations: [{op: 'q*', rule: [row]}]",
            "1:19: op: expected an operation of the graph, or a pattern (*, ?) of some; found q*"},
        Bad{"operations: [{op: , rule: [row]}]",
            "1:14: op: expected an operation of the graph, or a pattern (*, ?) of some; found "
            "nothing"},
        Bad{"operations: [{op: table, rule: [row]}]",
            "1:19: op: expected an operation of the graph, or a pattern (*, ?) of some; found "
            "table"},
        Bad{"operations: [{rule: [row]}]",
            "1:14: op: expected an operation of the graph, or a pattern (*, ?) of some; found "
            "nothing"},
        Bad{"operations: {op: x}", "1:13: operations: expected a list"},
        Bad{"parameters: [{name: up, storage: [R]}]",
            "1:21: name: expected a parameter of the graph, or a pattern (*, ?) of some; found up"},
        Bad{"parameters: [{name: tabel, storage: [R]}]",
            "1:21: name: expected a parameter of the graph, or a pattern (*, ?) of some; found "
            "tabel: did you mean table?"},
        Bad{"staged: [x]", "1:1: unknown key staged: did you mean stages?"},
        Bad{"microbatch: 2", "1:1: unknown key microbatch: did you mean microbatches?"},
        Bad{"2",
            "1:1: expected hints: a map of microbatches, gradients, operations or "
            "parameters"}));

INSTANTIATE_TEST_SUITE_P(
    Values, BadHints,
    testing::Values(
        Bad{"operations: [{op: 'y.*', rule: [colum]}]",
            "1:33: y.0 cannot be sharded by colum: did you mean column?; legal rules: replicate, "
            "batch, sequence, row, column, partial, factors"},
        Bad{"operations:\n  - {op: '*', rule: [row]}",
            "2:22: x cannot be sharded by row; legal rules: replicate, batch, sequence, column, "
            "vocabulary"},
        Bad{"operations: [{op: x, rule: [batch, batch]}]",
            "1:28: x: rule: expected a list of 1 rule(s), one per axis"},
        Bad{"operations: [{op: y.0, rule: [row], outputs: [[R]]}]",
            "1:46: y.0: the rule row has the outputs [[P]]; change the rule, and leave inputs and "
            "outputs out or make them the rule's"},
        Bad{"parameters: [{name: up.0, storage: [S(2)]}]",
            "1:36: up.0: storage cannot be S(2): a parameter of 2 dimension(s) is stored R or "
            "S(0) to S(1)"},
        Bad{"parameters: [{name: up.0, optimizer_state: [R, S(0)]}]",
            "1:44: up.0: optimizer_state: expected a list of 1 placement(s), one per axis"},
        Bad{"microbatches: 5",
            "1:15: microbatches: expected at most 4, the sequences of a step, found 5"},
        Bad{"microbatches: 2000000000",
            "1:15: microbatches: expected a whole number from 1 to 256, found 2000000000"},
        Bad{"microbatches: two",
            "1:15: microbatches: expected a whole number from 1 to 256, found two"},
        Bad{"accumulate: 5",
            "1:13: accumulate: expected at most 4 microbatches in all, the sequences of a step, "
            "found 5 groups of 1"},
        Bad{"{microbatches: 2, accumulate: 3}",
            "1:31: accumulate: expected at most 4 microbatches in all, the sequences of a step, "
            "found 3 groups of 2"},
        Bad{"operations: [{op: loss, recompute: true}]",
            "1:36: loss: recompute: the loss is computed once"},
        Bad{"operations: [{op: y.0, recompute: treu}]",
            "1:35: y.0: recompute: expected false or true, found treu: did you mean true?"},
        Bad{"parameters: [{name: up.0, reshard_after_forward: tru}]",
            "1:50: up.0: reshard_after_forward: expected false or true, found tru: did you mean "
            "true?"},
        Bad{"parameters: [{name: up.0, kept: stp}]",
            "1:33: up.0: kept: expected step or pass, found stp: did you mean step?"},
        Bad{"parameters: [{name: up.0, kept: pass, reshard_after_forward: true}]",
            "1:33: up.0: kept is the old spelling of reshard_after_forward: expected one of them"},
        Bad{"gradients: late", "1:12: gradients: expected overlapped or deferred"},
        Bad{"format_version: 3", "1:17: format_version: expected 1 or 2, found 3"},
        Bad{"operations: [{op: x, rule: [batch%1]}]",
            "1:29: batch%1: the axis ranks has 0 share(s) and 2 rank(s)"},
        Bad{"operations: [{op: x, rule: [batch@2]}]",
            "1:29: batch@2: the axis ranks has 0 share(s) and 2 rank(s)"},
        Bad{"shares: {ranks: [[1, 2]]}\noperations: [{op: x, rule: [replicate%1]}]",
            "2:29: x cannot be sharded by replicate%1: did you mean replicate?; legal rules: "
            "replicate, batch, sequence, "
            "column, vocabulary"},
        Bad{"parameters: [{name: up.0, storage: [S(0)%1]}]",
            "1:37: S(0)%1: the axis ranks has 0 share(s) and 2 rank(s)"},
        Bad{"shares: [[1, 2]]", "1:9: shares: expected a map of axes to lists of shares"},
        Bad{"shares: {rank: [[1, 2]]}", "1:10: shares: the mesh has no axis rank"},
        Bad{"shares: {ranks: [[1, 2]], ranks: [[1, 3]]}", "1:27: shares: ranks is given twice"},
        Bad{"shares: {ranks: [[1, 2, 3]]}",
            "1:18: shares: ranks: expected 2 whole numbers from 0 to 1000000, not all of them 0"},
        Bad{"shares: {ranks: [[0, 0]]}",
            "1:18: shares: ranks: expected 2 whole numbers from 0 to 1000000, not all of them 0"},
        Bad{"shares: {ranks: [[1, 2000000]]}",
            "1:18: shares: ranks: expected 2 whole numbers from 0 to 1000000, not all of them 0"},
        Bad{"format_version: 1\nshares: {ranks: [[1, 2]]}",
            "2:9: shares: files of format_version 1 have none; expected format_version: 2"},
        Bad{"shares: {ranks: 3}", "1:17: shares: ranks: expected a list of shares"},
        Bad{"mesh: [{name: ranks, size: 4}]",
            "1:7: mesh: expected ranks=2 of the cluster and its ranks, found ranks=4"}));

TEST(Hints, PinShares) {
  const Graph graph = hinted_graph();
  const Hints hints = read_hints(graph, kOneAxis,
                                 "shares: {ranks: [[2, 1]]}\n"
                                 "operations: [{op: 'y.*', rule: [batch%1]}]\n"
                                 "parameters: [{name: up.0, storage: [S(0)@1]}]",
                                 "h.yaml");
  EXPECT_EQ(hints.mesh[0].shares, (std::vector<Share>{{2, 1}}));
  Strategy strategy = named_strategy("dp", graph, hints.mesh);
  EXPECT_EQ(broken_hint(graph, hints, strategy), "the hints ask for y.0 by batch%1, not batch");
  for (const OpId op : {1, 2}) {
    strategy.ops[static_cast<size_t>(op)].rules[0] =
        with_share(find_rule(graph, op, "batch"), hints.mesh[0], ShareNumber::of(1));
  }
  EXPECT_EQ(broken_hint(graph, hints, strategy),
            "the hints ask for the storage [S(0)@1] of up.0, not [R]");
  strategy.parameters[1].storage = {Placement::shard(0, ShareNumber::only(1))};
  EXPECT_EQ(broken_hint(graph, hints, strategy), "");
}

TEST(Hints, SayWhichOfThemAStrategyBreaks) {
  const Graph graph = hinted_graph();
  const std::string dp = print_strategy(graph, named_strategy("dp", graph, kOneAxis));
  const auto broken = [&](const std::string& text) {
    return broken_hint(graph, read_hints(graph, kOneAxis, text, "h.yaml"),
                       named_strategy("dp", graph, kOneAxis));
  };
  EXPECT_EQ(broken(dp), "");
  EXPECT_EQ(broken("operations: [{op: y.1, rule: [batch]}]"), "");
  EXPECT_EQ(broken("operations: [{op: y.1, rule: [column]}]"),
            "the hints ask for y.1 by column, not batch");
  EXPECT_EQ(broken("microbatches: 2"), "the hints ask for 2 microbatches, not 1");
  EXPECT_EQ(broken("gradients: deferred"), "the hints ask for deferred gradients");
  EXPECT_EQ(broken("parameters: [{name: table, storage: [S(0)]}]"),
            "the hints ask for the storage [S(0)] of table, not [R]");
  EXPECT_EQ(broken("parameters: [{name: up.1, storage: [R], optimizer_state: [S(0)]}]"),
            "the hints ask for the optimizer state [S(0)] of up.1, not [R]");
}

}  // namespace
}  // namespace hidup
