// Every rule of every operation against the operation on one rank, forward and backward, with sizes
// that do not divide.
//
// An operation's floating-point inputs are parameters, and a cross-entropy follows it: so the loss
// depends on every element of its output, and the parameters' gradients are its backward pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/random.h"
#include "fake_ranks/fake_ranks.h"
#include "graph/text.h"
#include "short_run.h"

namespace hidup {
namespace {

// 5 sequences of 7 tokens; 3 experts with 4 slots.
constexpr const char* kRouted = R"(
parameter logits : f32[5, 7, 3] = uniform(1)
routing = route(logits) {capacity=4, choices=2}
gates = gate(logits, routing)
counts = expert_counts(routing)
)";
constexpr const char* kRoutedWithLosses = R"(
parameter logits : f32[5, 7, 3] = uniform(1)
routing = route(logits) {capacity=4, choices=3, balance_loss=2, z_loss=1}
gates = gate(logits, routing) {normalize=0}
counts = expert_counts(routing)
)";
constexpr const char* kRoutedWithoutCapacity = R"(
parameter logits : f32[5, 7, 3] = uniform(1)
routing = route(logits) {capacity=7, choices=2}
gates = gate(logits, routing)
counts = expert_counts(routing)
)";
// Equal logits: all tokens choose the first expert, and nobody the others.
constexpr const char* kRoutedToOneExpert = R"(
parameter logits : f32[5, 7, 3] = zeros
routing = route(logits) {capacity=7, choices=1}
gates = gate(logits, routing)
counts = expert_counts(routing)
)";
constexpr const char* kPackedExperts = R"(
parameter x : f32[5, 7, 6] = uniform(1)
parameter w : f32[3, 6, 7] = uniform(1)
parameter b : f32[3, 7] = uniform(1)
rows = expert_pack(x, routing, counts)
product = expert_matmul(rows, w, counts)
biased = expert_bias(product, b, counts)
active = gelu(biased)
kept = dropout(active) {p=0.3}
y = expert_unpack(kept, routing, gates, counts)
)";
// The second round of experts that take three rows of a sequence at a time.
constexpr const char* kSecondRound = R"(
parameter x : f32[5, 7, 6] = uniform(1)
parameter w : f32[3, 6, 7] = uniform(1)
of_round = round_counts(counts) {first=3, rows=3}
rows = expert_pack(x, routing, of_round) {first=3, rows=3}
product = expert_matmul(rows, w, of_round)
y = expert_unpack(product, routing, gates, of_round) {first=3, rows=3}
)";
constexpr const char* kRoutedWithBiases = R"(
parameter logits : f32[5, 7, 3] = uniform(1)
parameter balance : f32[3] = zeros
routing = route_biased(logits, balance) {capacity=4, choices=2, sigmoid=1, speed=0.1, z_loss=1}
gates = gate(logits, routing) {scale=2, sigmoid=1}
counts = expert_counts(routing)
)";
constexpr const char* kRoutedAsChosen = R"(input tokens : i32[5, 7]
input targets : i32[5, 7]
input choices.0 : i32[5, 7, 2]
parameter logits : f32[5, 7, 3] = uniform(1)
routing = route_chosen(logits, choices.0) {capacity=4, choices=2, z_loss=1}
gates = gate(logits, routing)
counts = expert_counts(routing)
)";
constexpr const char* kExperts = R"(
parameter x : f32[5, 7, 6] = uniform(1)
parameter w : f32[3, 6, 7] = uniform(1)
parameter b : f32[3, 7] = uniform(1)
buffer = dispatch(x, routing)
product = expert_matmul(buffer, w, counts)
biased = expert_bias(product, b, counts)
y = combine(biased, routing, gates)
)";

// Returns pairs of an operation whose rules are tried and the graph's text. Inputs other than
// tokens and targets of 5 sequences precede the operations.
std::vector<std::pair<std::string, std::string>> cases() {
  const std::string x = "parameter x : f32[5, 7, 6] = uniform(1)\n";
  const std::string tied =
      "parameter table : f32[11, 6] = uniform(1)\nx = embedding(tokens, table)\n"
      "y = matmul(x, table) {transposed=1}\n";
  const std::string experts = std::string(kRouted) + kExperts;
  const std::string images = "input images : f32[5, 7, 6]\ninput targets : i32[5, 7]\n";
  const std::string packed = std::string(kRoutedWithoutCapacity) + kPackedExperts;
  const std::string second = std::string(kRoutedWithoutCapacity) + kSecondRound;
  const std::string to_one = std::string(kRoutedToOneExpert) + kPackedExperts;
  const std::string losses = std::string(kRoutedWithLosses) + kExperts;
  return {
      {"y", "parameter table : f32[11, 6] = uniform(1)\ny = embedding(tokens, table) {scale=2}\n"},
      {"x", tied},
      {"y", tied},
      {"y", x + "y = positions(x)\n"},
      {"h",
       "parameter x : f32[5, 7, 3, 6] = uniform(1)\nparameter v : f32[3, 6, 6] = uniform(1)\n"
       "h = rotary(x) {theta=100}\ny = matmul(h, v) {contract=2}\n"},
      {"h",
       "parameter x : f32[5, 7, 2, 3, 4] = uniform(1)\nparameter v : f32[2, 3, 4, 6] = uniform(1)\n"
       "h = rotary(x)\ny = matmul(h, v) {contract=3}\n"},
      {"y",
       "parameter x : f32[5, 6, 6] = uniform(1)\nparameter t : f32[6] = uniform(1)\n"
       "y = prepend(x, t)\n"},
      {"y", "input targets : i32[5]\n" + x + "y = first(x)\n"},
      {"y", images + "parameter w : f32[6, 7] = uniform(1)\ny = matmul(images, w)\n"},
      {"h", images + "parameter w : f32[6, 7] = uniform(1)\nh = gelu(images)\n"
                     "y = matmul(h, w)\n"},
      {"y",
       "input images : f32[5, 6, 6]\ninput targets : i32[5, 7]\n"
       "parameter t : f32[6] = uniform(1)\ny = prepend(images, t)\n"},
      {"y", x + "parameter w : f32[6, 7] = uniform(1)\ny = matmul(x, w)\n"},
      {"logits", x + "parameter v : f32[6, 3] = uniform(1)\nlogits = wide_matmul(x, v)\n"
                     "routing = route(logits) {capacity=4, choices=2}\n"
                     "gates = gate(logits, routing) {normalize=0}\n"
                     "buffer = dispatch(x, routing)\ny = combine(buffer, routing, gates)\n"},
      {"y",
       "parameter x : f32[5, 7, 3, 5] = uniform(1)\nparameter w : f32[3, 5, 6] = uniform(1)\n"
       "y = matmul(x, w) {contract=2}\n"},
      {"h", x + "parameter w : f32[6, 3, 3, 5] = uniform(1)\nparameter v : f32[3, 5, 6] = "
                "uniform(1)\nh = matmul(x, w)\na = attention(h)\ny = matmul(a, v) {contract=2}\n"},
      {"y", x + "parameter b : f32[6] = uniform(1)\ny = bias(x, b)\n"},
      {"h",
       "parameter x : f32[5, 7, 3, 5] = uniform(1)\nparameter b : f32[3, 5] = uniform(1)\n"
       "parameter v : f32[3, 5, 6] = uniform(1)\nh = bias(x, b)\n"
       "y = matmul(h, v) {contract=2}\n"},
      {"y", x + "parameter b : f32[7, 6] = uniform(1)\ny = bias(x, b)\n"},
      {"y", x + "parameter w : f32[7, 6] = uniform(1)\ny = matmul(x, w) {transposed=1}\n"},
      {"y",
       "parameter x : f32[5, 7, 3, 5] = uniform(1)\nparameter w : f32[6, 3, 5] = uniform(1)\n"
       "y = matmul(x, w) {contract=2, transposed=1}\n"},
      {"h", x + "parameter w : f32[3, 5, 6] = uniform(1)\nparameter v : f32[6, 3, 5] = uniform(1)\n"
                "h = matmul(x, w) {transposed=1}\ny = matmul(h, v) {contract=2, transposed=1}\n"},
      {"y", x + "y = relu(x)\n"},
      {"y", x + "y = gelu(x)\n"},
      {"h", x + "h = gelu(x)\ny = add(h, x)\n"},
      {"y", x + "y = silu(x)\n"},
      {"h", x + "h = silu(x)\ny = add(h, x)\n"},
      {"y", x + "parameter z : f32[5, 7, 6] = uniform(1)\ny = swiglu(x, z)\n"},
      {"h", x + "h = swiglu(x, x)\ny = add(h, x)\n"},
      {"h", x + "parameter w : f32[6, 6] = uniform(1)\nh = matmul(x, w)\ny = add(x, h)\n"},
      {"y", x + "y = dropout(x) {p=0.3}\n"},
      {"y", x + "parameter z : f32[5, 7, 6] = uniform(1)\ny = add(x, z)\n"},
      {"y", x + "y = add(x, x)\n"},
      {"y", x + "parameter w : f32[6] = uniform(1)\nparameter b : f32[6] = uniform(1)\n"
                "y = layer_norm(x, w, b)\n"},
      {"y", x + "parameter w : f32[6] = uniform(1)\ny = rms_norm(x, w)\n"},
      {"a",
       "parameter x : f32[5, 7, 3, 3, 5] = uniform(1)\nparameter v : f32[3, 5, 6] = "
       "uniform(1)\na = attention(x)\ny = matmul(a, v) {contract=2}\n"},
      {"a",
       "parameter x : f32[5, 7, 3, 3, 5] = uniform(1)\nparameter v : f32[3, 5, 6] = "
       "uniform(1)\na = attention(x) {causal=0}\ny = matmul(a, v) {contract=2}\n"},
      {"a",
       "parameter q : f32[5, 7, 3, 2, 5] = uniform(1)\nparameter k : f32[5, 7, 3, 5] = "
       "uniform(1)\nparameter v : f32[5, 7, 3, 5] = uniform(1)\nparameter w : f32[3, 2, 5, 6] = "
       "uniform(1)\na = grouped_attention(q, k, v)\ny = matmul(a, w) {contract=3}\n"},
      {"a",
       "parameter q : f32[5, 7, 1, 5, 4] = uniform(1)\nparameter k : f32[5, 7, 1, 4] = "
       "uniform(1)\nparameter v : f32[5, 7, 1, 4] = uniform(1)\nparameter w : f32[1, 5, 4, 6] = "
       "uniform(1)\na = grouped_attention(q, k, v) {causal=0}\ny = matmul(a, w) {contract=3}\n"},
      {"loss", x + "parameter z : f32[6] = uniform(1)\ny = bias(x, z)\n"},
      {"routing", experts},
      {"routing", losses},
      {"routing", std::string(kRoutedWithBiases) + kExperts},
      {"routing", std::string(kRoutedAsChosen) + kExperts},
      {"gates", losses},
      {"gates", experts},
      {"counts", experts},
      {"buffer", experts},
      {"product", experts},
      {"biased", experts},
      {"y", experts},
      {"routing", packed},
      {"gates", packed},
      {"counts", packed},
      {"rows", packed},
      {"product", packed},
      {"biased", packed},
      {"active", packed},
      {"kept", packed},
      {"y", packed},
      {"counts", second},
      {"of_round", second},
      {"rows", second},
      {"product", second},
      {"y", second},
      {"rows", to_one},
      {"product", to_one},
      {"y", to_one},
  };
}

Graph graph_of(const std::string& operations) {
  const std::string inputs = operations.starts_with("input")
                                 ? ""
                                 : "input tokens : i32[5, 7]\ninput targets : i32[5, 7]\n";
  return parse_graph("graph case\n" + inputs + operations + "loss = cross_entropy(y, targets)\n",
                     "case");
}

OpId find_op(const Graph& graph, const std::string& name) {
  return graph.tensor(graph.find(name)).producer;
}

void expect_equal(const Graph& graph, const Strategy& strategy, const ShortRun& expected,
                  const std::string& what, const Bounds& bounds = {}) {
  const bool packs = std::ranges::count(graph.ops(), OpKind::expert_pack, &Op::kind) > 0;
  for (const std::optional<double> slack : {std::optional<double>(), std::optional(1.0)}) {
    if (slack && !packs) {
      continue;
    }
    ShortRun found;
    run_ranks(static_cast<int>(ranks_of(strategy.mesh)), [&](Communicator& world) {
      const ShortRun run =
          run_steps(graph, strategy, world, 2, 6, nullptr, 0, {.expert_slack = slack});
      if (world.rank() == 0) {
        found = run;
      }
    });
    EXPECT_EQ(differences(expected, found, bounds), "") << what << (slack ? ", in rounds" : "");
  }
}

class EveryRule : public testing::TestWithParam<int64_t> {};

TEST_P(EveryRule, EqualsTheWholeOperation) {
  for (const auto& [name, operations] : cases()) {
    const Graph graph = graph_of(operations);
    const ShortRun expected = run_alone(graph, 2, 6);
    const OpId op = find_op(graph, name);
    for (const Rule& rule : rules_of(graph, op)) {
      Strategy strategy = replicated_strategy(graph, {{"ranks", GetParam()}});
      strategy.ops[static_cast<size_t>(op)].rules[0] = rule;
      expect_equal(graph, strategy, expected, rule.name + " of " + operations);
    }
  }
}

// Chooses storage and optimizer state of every parameter independently at random: whole or cut, by
// any share of the axis or one rank.
void store_at_random(const Graph& graph, const Axis& axis, uint64_t seed, Strategy& strategy) {
  const RandomStream random = random_stream(seed, "storage");
  uint64_t drawn = 0;
  const auto below = [&](size_t n) { return static_cast<int64_t>(random.word(drawn++) % n); };
  for (ParameterStrategy& parameter : strategy.parameters) {
    const size_t dims = graph.tensor(parameter.tensor).shape.size();
    for (Layout* layout : {&parameter.storage, &parameter.optimizer_state}) {
      const int64_t share = below(axis.shares.size() + 2);  // equal, one of the axis's, or a rank
      const ShareNumber number = share <= static_cast<int64_t>(axis.shares.size())
                                     ? ShareNumber::of(share)
                                     : ShareNumber::only(below(static_cast<size_t>(axis.size)));
      const int64_t dim = below(dims + 1);
      const Placement placement = dim == static_cast<int64_t>(dims)
                                      ? Placement::replicate()
                                      : Placement::shard(static_cast<int>(dim));
      *layout = {with_share(placement, axis, number)};
    }
  }
}

// Returns a share of random weights, some of them 0.
Share random_weights(int64_t ranks, uint64_t seed) {
  const RandomStream random = random_stream(seed, "weights");
  Share share;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    share.push_back(static_cast<int64_t>(random.word(static_cast<uint64_t>(rank)) % 4));
  }
  share[random.word(9) % share.size()] += 1;
  return share;
}

// Every rule is tried in unequal parts, some of them empty.
TEST_P(EveryRule, EqualsTheWholeOperationInUnequalParts) {
  const int64_t ranks = GetParam();
  Share rising;
  Share middle(static_cast<size_t>(ranks), 0);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    rising.push_back(rank + 1);
  }
  middle[static_cast<size_t>(ranks / 2)] = 1;
  Share ends(static_cast<size_t>(ranks), 0);  // several ranks, but not all
  ends.front() = 1;
  ends.back() = 2;
  auto seed = static_cast<uint64_t>(ranks);
  uint64_t stored = 0;
  for (const auto& [name, operations] : cases()) {
    const Graph graph = graph_of(operations);
    const ShortRun expected = run_alone(graph, 2, 6);
    const OpId op = find_op(graph, name);
    for (const Rule& equal : rules_of(graph, op)) {
      ++seed;
      const Mesh mesh = {{.name = "ranks",
                          .size = ranks,
                          .shares = {rising, middle, ends, random_weights(ranks, seed)}}};
      for (const ShareNumber share : {ShareNumber::of(1), ShareNumber::of(2), ShareNumber::of(3),
                                      ShareNumber::of(4), ShareNumber::only(ranks - 1)}) {
        if (!takes_share(equal, mesh[0], share)) {
          continue;
        }
        const Rule rule = with_share(equal, mesh[0], share);
        Strategy strategy = replicated_strategy(graph, mesh);
        strategy.ops[static_cast<size_t>(op)].rules[0] = rule;
        store_at_random(graph, mesh[0], ++stored, strategy);
        expect_equal(graph, strategy, expected, to_string(rule) + " of " + operations);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, EveryRule, testing::Values(2, 3, 4),
                         [](const auto& test) { return std::to_string(test.param) + "ranks"; });

// Some 16-bit gradients change their type on the way.
TEST(HalfRules, EqualTheWholeOperation) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const auto& [name, operations] : cases()) {
      const Graph graph = with_precision(graph_of(operations), dtype);
      const ShortRun expected = run_alone(graph, 2, 6);
      EXPECT_EQ(differences(run_alone(graph_of(operations), 2, 6), expected, bounds_of(dtype)), "")
          << name_of(dtype) << " and f32 of " << operations;
      const OpId op = find_op(graph, name);
      for (const Rule& rule : rules_of(graph, op)) {
        Strategy strategy = replicated_strategy(graph, {{"ranks", 3}});
        strategy.ops[static_cast<size_t>(op)].rules[0] = rule;
        expect_equal(graph, strategy, expected,
                     std::string(name_of(dtype)) + ": " + rule.name + " of " + operations,
                     bounds_of(dtype));
      }
    }
  }
}

// One operation has two rules, one per axis.
TEST(RulePairs, ComposeOnTwoAxes) {
  for (const auto& [name, operations] : cases()) {
    const Graph graph = graph_of(operations);
    const ShortRun expected = run_alone(graph, 2, 6);
    const OpId op = find_op(graph, name);
    for (const Rule& outer : rules_of(graph, op)) {
      for (const Rule& inner : rules_of(graph, op)) {
        Strategy strategy = replicated_strategy(graph, {{"node", 2}, {"core", 2}});
        strategy.ops[static_cast<size_t>(op)].rules = {outer, inner};
        expect_equal(graph, strategy, expected,
                     outer.name + " and " + inner.name + " of " + operations);
      }
    }
  }
}

}  // namespace
}  // namespace hidup
