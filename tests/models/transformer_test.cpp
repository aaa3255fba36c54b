// Models of decks, as tests/golden/make_golden.py defines them with PyTorch.
#include "models/transformer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/text.h"
#include "small_deck.h"

namespace hidup {
namespace {

Deck deck_of(int64_t layers, const MoeDeck& moe) {
  Deck deck = small_deck_of("bert", moe);
  deck.model->layers = layers;
  return deck;
}

MoeDeck moe_of(const std::string& router, double capacity_factor, int64_t every = 1) {
  return {.experts = 5, .every = every, .router = router, .capacity_factor = capacity_factor};
}

// Returns "name [shape] start" of each parameter, followed by 'd' where weight decay applies.
std::vector<std::string> parameters_of(const Graph& graph) {
  std::vector<std::string> found;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      const std::string start = tensor.init.kind == Init::Kind::uniform
                                    ? fmt::format("{:.9g}", tensor.init.scale)
                                    : (tensor.init.kind == Init::Kind::ones ? "ones" : "zeros");
      found.push_back(fmt::format("{} {} {}{}", tensor.name, to_string(tensor.shape), start,
                                  tensor.decay ? " d" : ""));
    }
  }
  return found;
}

std::string bound(double value) {
  return fmt::format("{:.9g}", value);
}

std::vector<std::string> block(const std::string& at, const std::vector<std::string>& half) {
  std::vector<std::string> block = {
      at + ".attention.qkv.weight [12, 3, 3, 4] " + bound(std::sqrt(6.0 / 48.0)) + " d",
      at + ".attention.qkv.bias [3, 3, 4] zeros",
      at + ".attention.out.weight [3, 4, 12] " + bound(1.0 / std::sqrt(12.0)) + " d",
      at + ".attention.out.bias [12] zeros",
      at + ".norm1.weight [12] ones",
      at + ".norm1.bias [12] zeros"};
  block.insert(block.end(), half.begin(), half.end());
  block.push_back(at + ".norm2.weight [12] ones");
  block.push_back(at + ".norm2.bias [12] zeros");
  return block;
}

std::vector<std::string> dense_block(const std::string& at) {
  const std::string up = bound(1.0 / std::sqrt(12.0));
  const std::string down = bound(1.0 / std::sqrt(20.0));
  return block(
      at, {at + ".ffn.up.weight [12, 20] " + up + " d", at + ".ffn.up.bias [20] " + up,
           at + ".ffn.down.weight [20, 12] " + down + " d", at + ".ffn.down.bias [12] " + down});
}

std::vector<std::string> experts_block(const std::string& at) {
  const std::string up = bound(1.0 / std::sqrt(12.0));
  const std::string down = bound(1.0 / std::sqrt(20.0));
  return block(at, {at + ".moe.router.weight [12, 5] " + up + " d",
                    at + ".moe.experts.up.weight [5, 12, 20] " + up + " d",
                    at + ".moe.experts.up.bias [5, 20] " + up,
                    at + ".moe.experts.down.weight [5, 20, 12] " + down + " d",
                    at + ".moe.experts.down.bias [5, 12] " + down});
}

TEST(Transformer, ParametersAreThoseOfTheGoldenModel) {
  for (const bool experts : {false, true}) {
    std::vector<std::string> expected = {"embedding.weight [31, 12] 0.1 d"};
    for (const auto& part :
         {dense_block("layers.0"), experts ? experts_block("layers.1") : dense_block("layers.1")}) {
      expected.insert(expected.end(), part.begin(), part.end());
    }
    expected.emplace_back("head.weight [12, 31] 0.1 d");
    expected.emplace_back("head.bias [31] zeros");
    const Deck deck = deck_of(2, experts ? moe_of("top2", 1.0, 2) : MoeDeck{});
    EXPECT_EQ(parameters_of(build_model(deck, 31)), expected);
  }
}

// Blocks i with (i + 1) % every == 0 have experts.
TEST(Transformer, ExpertsAreInEverySoManyBlocks) {
  const auto blocks = [](int64_t every) {
    const Graph graph = build_model(deck_of(6, moe_of("top1", 1.0, every)), 31);
    std::string text;
    for (int layer = 0; layer < 6; ++layer) {
      const std::string at = fmt::format("layers.{}", layer);
      const bool experts = graph.find(at + ".moe.experts.up") >= 0;
      EXPECT_NE(experts, graph.find(at + ".ffn.up") >= 0) << at;
      text += experts ? 'e' : '-';
    }
    return text;
  };
  EXPECT_EQ(blocks(1), "eeeeee");
  EXPECT_EQ(blocks(2), "-e-e-e");
  EXPECT_EQ(blocks(3), "--e--e");
  EXPECT_EQ(blocks(6), "-----e");
  EXPECT_EQ(blocks(7), "------");
}

const Op& routing_of(const Graph& graph) {
  return graph.op(graph.tensor(graph.find("layers.0.moe.routing")).producer);
}

TEST(Transformer, CapacityIsRoundedUpAndLimited) {
  const auto capacity = [](const std::string& router, double factor) {
    const Graph graph = build_model(deck_of(1, moe_of(router, factor)), 31);
    const int64_t slots = routing_of(graph).as<RouteAttributes>().capacity;
    EXPECT_EQ(graph.tensor(graph.find("layers.0.moe.dispatch")).shape, (Shape{5, 5, slots, 12}));
    return slots;
  };
  // All cases have 7 tokens and 5 experts.
  EXPECT_EQ(capacity("top1", 1.0), 2);   // 1.4
  EXPECT_EQ(capacity("top2", 1.0), 3);   // 2.8
  EXPECT_EQ(capacity("hash", 1.0), 2);   // 1.4
  EXPECT_EQ(capacity("top1", 1.25), 2);  // 1.75
  EXPECT_EQ(capacity("top2", 1.25), 4);  // 3.5
  EXPECT_EQ(capacity("top1", 0.01), 1);  // at least one
  EXPECT_EQ(capacity("top1", 5.0), 7);   // all tokens
  EXPECT_EQ(capacity("top2", 5.0), 7);   // 14, but a token chooses an expert once
  EXPECT_EQ(capacity("top1", 1000.0), 7);
}

TEST(Transformer, RoutersChooseOneOrTwo) {
  const auto routing = [](const std::string& router) {
    return routing_of(build_model(deck_of(1, moe_of(router, 1.0)), 31)).as<RouteAttributes>();
  };
  EXPECT_EQ(routing("top1").choices, 1);
  EXPECT_EQ(routing("top2").choices, 2);
  EXPECT_EQ(routing("hash").choices, 1);
}

TEST(Transformer, WorkloadsChooseInPlaceOfTheLogits) {
  Deck deck = deck_of(1, moe_of("hot-rank", 1.0));
  deck.model->layers = 2;
  const Graph graph = build_model(deck, 31);
  for (const auto& [layer, input] :
       {std::pair{"layers.0", "choices.0"}, {"layers.1", "choices.1"}}) {
    const TensorId routing = graph.find(fmt::format("{}.moe.routing", layer));
    const Op& op = graph.op(graph.tensor(routing).producer);
    EXPECT_EQ(op.kind, OpKind::route_chosen);
    EXPECT_EQ(graph.tensor(op.inputs[1]).name, input);
    EXPECT_EQ(graph.tensor(op.inputs[1]).shape, graph.tensor(routing).shape);
  }
}

TEST(Transformer, RoutersOfAnyNumberOfExpertsWithLosses) {
  MoeDeck moe = moe_of("topk", 1.0);
  moe.top_k = 3;
  moe.normalize = "off";
  moe.balance_loss = 0.5;
  moe.balance = "gshard";
  moe.z_loss = 0.25;
  const std::string text = print_graph(build_model(deck_of(1, moe), 31));
  const std::string expected = R"(
layers.0.moe.routing = route(layers.0.moe.router) {balance_loss=0.5, capacity=5, choices=3, gshard=1, sigmoid=0, speed=0, z_loss=0.25} : i32[5, 7, 3]
layers.0.moe.gates = gate(layers.0.moe.router, layers.0.moe.routing) {capacity=5, experts=5, normalize=0, scale=1, sigmoid=0} : f32[5, 7, 3]
)";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

TEST(Transformer, ExpertsWithoutBiases) {
  MoeDeck moe = moe_of("top2", 1.0);
  moe.bias = "off";
  const Graph graph = build_model(deck_of(1, moe), 31);
  const std::string text = print_graph(graph);
  const std::string expected = R"(
layers.0.moe.experts.up = expert_matmul(layers.0.moe.dispatch, layers.0.moe.experts.up.weight, layers.0.moe.counts) : f32[5, 5, 3, 20]
layers.0.moe.experts.relu = relu(layers.0.moe.experts.up) : f32[5, 5, 3, 20]
layers.0.moe.activation_dropout = dropout(layers.0.moe.experts.relu) {p=0.1} : f32[5, 5, 3, 20]
layers.0.moe.experts.down = expert_matmul(layers.0.moe.activation_dropout, layers.0.moe.experts.down.weight, layers.0.moe.counts) : f32[5, 5, 3, 12]
layers.0.moe.combine = combine(layers.0.moe.experts.down, layers.0.moe.routing,)";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
  EXPECT_EQ(graph.find("layers.0.moe.experts.up.bias"), -1);
  EXPECT_EQ(graph.find("layers.0.moe.experts.down.bias"), -1);
}

// In a block, experts follow the router and precede the residual connection.
TEST(Transformer, ABlockWithExperts) {
  const std::string text = print_graph(build_model(deck_of(1, moe_of("top2", 1.0)), 31));
  const std::string expected = R"(
layers.0.moe.router = wide_matmul(layers.0.norm1, layers.0.moe.router.weight) {contract=1, transposed=0} : f32[5, 7, 5]
layers.0.moe.routing = route(layers.0.moe.router) {balance_loss=0, capacity=3, choices=2, gshard=0, sigmoid=0, speed=0, z_loss=0} : i32[5, 7, 2]
layers.0.moe.gates = gate(layers.0.moe.router, layers.0.moe.routing) {capacity=3, experts=5, normalize=1, scale=1, sigmoid=0} : f32[5, 7, 2]
layers.0.moe.counts = expert_counts(layers.0.moe.routing) {capacity=3, experts=5} : i32[5, 5]
layers.0.moe.dispatch = dispatch(layers.0.norm1, layers.0.moe.routing) {capacity=3, experts=5} : f32[5, 5, 3, 12]
layers.0.moe.experts.up = expert_matmul(layers.0.moe.dispatch, layers.0.moe.experts.up.weight, layers.0.moe.counts) : f32[5, 5, 3, 20]
layers.0.moe.experts.up.biased = expert_bias(layers.0.moe.experts.up, layers.0.moe.experts.up.bias, layers.0.moe.counts) : f32[5, 5, 3, 20]
layers.0.moe.experts.relu = relu(layers.0.moe.experts.up.biased) : f32[5, 5, 3, 20]
layers.0.moe.activation_dropout = dropout(layers.0.moe.experts.relu) {p=0.1} : f32[5, 5, 3, 20]
layers.0.moe.experts.down = expert_matmul(layers.0.moe.activation_dropout, layers.0.moe.experts.down.weight, layers.0.moe.counts) : f32[5, 5, 3, 12]
layers.0.moe.experts.down.biased = expert_bias(layers.0.moe.experts.down, layers.0.moe.experts.down.bias, layers.0.moe.counts) : f32[5, 5, 3, 12]
layers.0.moe.combine = combine(layers.0.moe.experts.down.biased, layers.0.moe.routing, layers.0.moe.gates) {capacity=3, experts=5} : f32[5, 7, 12]
layers.0.moe.dropout = dropout(layers.0.moe.combine) {p=0.1} : f32[5, 7, 12]
layers.0.moe.residual = add(layers.0.norm1, layers.0.moe.dropout) : f32[5, 7, 12]
layers.0.norm2 = layer_norm(layers.0.moe.residual, layers.0.norm2.weight, layers.0.norm2.bias) {epsilon=1e-05} : f32[5, 7, 12]
)";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

TEST(Transformer, WithoutDropoutThereIsNone) {
  for (const double p : {0.0, 0.1}) {
    Deck deck = deck_of(2, moe_of("top1", 1.0, 2));
    deck.model->dropout = p;
    const Graph graph = build_model(deck, 31);
    int found = 0;
    for (const Op& op : graph.ops()) {
      found += op.kind == OpKind::dropout ? 1 : 0;
    }
    EXPECT_EQ(found, p == 0.0 ? 0 : 1 + 2 * 3);  // the embedding, three in a block
  }
}

}  // namespace
}  // namespace hidup
