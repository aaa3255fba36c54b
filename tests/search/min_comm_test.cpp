// The strategy of least communication volume, against the programs of all strategies.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "deck/train_deck.h"
#include "graph/text.h"
#include "program/work.h"
#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

// Returns the bytes that the first rank sends in a step, with every collective in a ring, without
// the sums of the loss and of norms.
double volume_of(const Graph& graph, const Strategy& strategy) {
  Program program = lower(graph, strategy, {.bucket_bytes = 1});
  double bytes = 0.0;
  for (const Instruction& instruction : program.instructions) {
    const bool for_people = std::ranges::all_of(instruction.inputs, [&](ValueId id) {
      return id == program.loss || elements(program.value(id).shape) == 1;
    });
    if (collective_of(instruction.opcode).empty() || for_people) {
      continue;
    }
    const auto n = static_cast<double>(program.mesh[static_cast<size_t>(instruction.axis)].size);
    const double laps = instruction.opcode == Opcode::all_reduce ? 2.0 : 1.0;
    bytes += laps * (n - 1.0) / n * work_of(program, instruction, 0).bytes;
  }
  return bytes;
}

// Returns true if the rule leaves the first rank less than a whole product.
bool divides(const Graph& graph, OpId op, const Rule& rule) {
  if (graph.op(op).kind != OpKind::matmul) {
    return true;
  }
  const auto is_cut = [&](TensorId id, const Placement& placement) {
    return placement.is_shard() && graph.tensor(id).shape[static_cast<size_t>(placement.dim)] > 1;
  };
  const Op& self = graph.op(op);
  return is_cut(self.inputs[0], rule.inputs[0]) || is_cut(self.inputs[1], rule.inputs[1]);
}

// Returns the least volume of strategies that divide products and store parameters as used.
double least_volume(const Graph& graph, const Mesh& mesh) {
  Strategy strategy = named_strategy("dp", graph, mesh);
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(OpId)> try_all = [&](OpId op) {
    if (op == static_cast<OpId>(graph.ops().size())) {
      least = std::min(least, volume_of(graph, strategy));
      return;
    }
    for (const Rule& rule : rules_of(graph, op)) {
      if (!divides(graph, op, rule)) {
        continue;
      }
      strategy.ops[static_cast<size_t>(op)].rules = {rule};
      for (size_t i = 0; i < graph.op(op).inputs.size(); ++i) {
        for (ParameterStrategy& parameter : strategy.parameters) {
          if (parameter.tensor == graph.op(op).inputs[i]) {
            const Placement used =
                rule.inputs[i].is_partial() ? Placement::replicate() : rule.inputs[i];
            parameter.storage = parameter.optimizer_state = {used};
          }
        }
      }
      try_all(op + 1);
    }
  };
  try_all(0);
  return least;
}

Graph two_products(int64_t batch, int64_t hidden, int64_t inner) {
  return parse_graph(fmt::format(R"(graph small
input tokens : i32[{0}, 6]
input targets : i32[{0}, 6]
parameter table : f32[10, {1}] = uniform(0.1) decay
parameter up : f32[{1}, {2}] = uniform(0.1) decay
parameter down : f32[{2}, 10] = uniform(0.1) decay
x = embedding(tokens, table)
y = matmul(x, up)
z = relu(y)
logits = matmul(z, down)
loss = cross_entropy(logits, targets)
)",
                                 batch, hidden, inner),
                     "small");
}

TEST(MinComm, HasTheLeastVolumeOfAllStrategies) {
  for (const int64_t ranks : {2, 3}) {
    for (const Graph& graph : {two_products(1, 8, 64), two_products(2, 64, 8),
                               two_products(6, 8, 128), two_products(40, 12, 16)}) {
      const Mesh mesh = {{"ranks", ranks}};
      const Strategy found = named_strategy("min-comm", graph, mesh);
      const double least = least_volume(graph, mesh);
      EXPECT_NEAR(volume_of(graph, found), least, 1e-9 * least) << print_strategy(graph, found);
    }
  }
}

Graph bert(int64_t batch, int64_t layers, int64_t experts) {
  Deck deck = small_deck(layers, experts);
  deck.train->batch = batch;
  return build_model(deck, 1000);
}

TEST(MinComm, IsBetweenTheNamedStrategiesOrBetter) {
  const Mesh mesh = {{"ranks", 4}};
  for (const int64_t batch : {1, 4, 64}) {
    for (const int64_t experts : {0, 4}) {
      const Graph graph = bert(batch, 2, experts);
      const double least = volume_of(graph, named_strategy("min-comm", graph, mesh));
      for (const NamedStrategy& named : named_strategies()) {
        if (named.of_stages) {  // a rank does not compute everything then
          continue;
        }
        EXPECT_LE(least, volume_of(graph, named_strategy(named.name, graph, mesh)) * (1 + 1e-6))
            << named.name << ", batch " << batch << ", " << experts << " experts";
      }
    }
  }
}

std::vector<std::string> rules_of_products(const Graph& graph, const Strategy& strategy) {
  std::vector<std::string> rules;
  for (size_t op = 0; op < graph.ops().size(); ++op) {
    const OpKind kind = graph.ops()[op].kind;
    if (kind == OpKind::matmul || kind == OpKind::attention) {
      rules.push_back(strategy.ops[op].rules.at(0).name);
    }
  }
  return rules;
}

// The rules are those of a layer's four products and its attention, and of the head.
TEST(MinComm, CutsWeightsForASmallBatchAndTheBatchForALargeOne) {
  const Mesh mesh = {{"ranks", 4}};
  const Graph small = bert(1, 1, 0);
  EXPECT_EQ(rules_of_products(small, named_strategy("min-comm", small, mesh)),
            (std::vector<std::string>{"column(1)", "head", "row(0)", "column", "row", "column"}));
  const Graph large = bert(512, 1, 0);
  EXPECT_EQ(rules_of_products(large, named_strategy("min-comm", large, mesh)),
            std::vector<std::string>(6, "batch"));
}

// With a single sequence the batch rule would give the first rank all work, and it would send
// nothing but gradients.
TEST(MinComm, DividesProductsInFact) {
  for (const int64_t sequence : {1, 6}) {
    const Graph graph = parse_graph(fmt::format(R"(graph single
input tokens : i32[1, {0}]
input targets : i32[1, {0}]
parameter table : f32[4, 4] = uniform(0.1) decay
parameter w : f32[4, 4] = uniform(0.1) decay
x = embedding(tokens, table)
y = matmul(x, w)
loss = cross_entropy(y, targets)
)",
                                                sequence),
                                    "single");
    const Strategy strategy = named_strategy("min-comm", graph, {{"ranks", 2}});
    const std::string& rule = strategy.ops[1].rules.at(0).name;
    EXPECT_TRUE(rule == "row" || rule == "column" || (rule == "sequence" && sequence > 1)) << rule;
  }
}

}  // namespace
}  // namespace hidup
