// Operations of a Mixture-of-Experts layer: shapes, dtypes, and values from the routing.
#include <gtest/gtest.h>

#include "core/check.h"
#include "graph/flops.h"
#include "graph/text.h"

namespace hidup {
namespace {

// 3 experts with 4 slots per sequence of 6 tokens, two choices per token; layers.1 has another
// capacity.
constexpr const char* kExperts = R"(graph experts

input tokens : i32[5, 6]
input targets : i32[5, 6]
parameter table : f32[11, 8] = uniform(0.1) decay
parameter router : f32[8, 3] = uniform(0.5) decay
parameter up : f32[3, 8, 10] = uniform(0.25) decay
parameter up.bias : f32[3, 10] = zeros
parameter down : f32[3, 10, 11] = uniform(0.25) decay

x = embedding(tokens, table) {scale=1} : f32[5, 6, 8]
logits = matmul(x, router) {contract=1, transposed=0} : f32[5, 6, 3]
routing = route(logits) {balance_loss=0, capacity=4, choices=2, gshard=0, sigmoid=0, speed=0, z_loss=0} : i32[5, 6, 2]
gates = gate(logits, routing) {capacity=4, experts=3, normalize=1, scale=1, sigmoid=0} : f32[5, 6, 2]
counts = expert_counts(routing) {capacity=4, experts=3} : i32[3, 5]
buffer = dispatch(x, routing) {capacity=4, experts=3} : f32[3, 5, 4, 8]
product = expert_matmul(buffer, up, counts) : f32[3, 5, 4, 10]
biased = expert_bias(product, up.bias, counts) : f32[3, 5, 4, 10]
back = expert_matmul(biased, down, counts) : f32[3, 5, 4, 11]
y = combine(back, routing, gates) {capacity=4, experts=3} : f32[5, 6, 11]
loss = cross_entropy(y, targets) : f32[]
)";

Graph experts_and(const std::string& statements) {
  return parse_graph(kExperts + statements, "g");
}

const Op& op_of(const Graph& graph, const std::string& name) {
  return graph.op(graph.tensor(graph.find(name)).producer);
}

TEST(Experts, PrintWhatWasParsed) {
  const Graph graph = parse_graph(kExperts, "experts");
  EXPECT_EQ(print_graph(graph), kExperts);
  EXPECT_EQ(graph_hash(parse_graph(print_graph(graph), "again")), graph_hash(graph));
}

TEST(Experts, TakeAttributesOfTheRouting) {
  const Graph graph = experts_and(
      "routing.b = route(logits) {capacity=2, choices=1}\n"
      "gates.b = gate(logits, routing.b)\n"
      "counts.b = expert_counts(routing.b)\n"
      "buffer.b = dispatch(x, routing.b)\n"
      "y.b = combine(buffer.b, routing.b, gates.b)\n");
  EXPECT_EQ(op_of(graph, "gates.b").as<GateAttributes>(),
            (GateAttributes{.capacity = 2, .experts = 3}));
  for (const char* name : {"counts.b", "buffer.b", "y.b"}) {
    EXPECT_EQ(op_of(graph, name).as<ExpertAttributes>(),
              (ExpertAttributes{.capacity = 2, .experts = 3}))
        << name;
  }
  EXPECT_EQ(graph.tensor(graph.find("buffer.b")).shape, (Shape{3, 5, 2, 8}));
  EXPECT_EQ(graph.tensor(graph.find("y.b")).shape, (Shape{5, 6, 8}));
}

TEST(Experts, DimensionsAreNamed) {
  const Graph graph = parse_graph(kExperts, "experts");
  const auto dims = [&](const char* name) { return graph.tensor(graph.find(name)).dims; };
  using Names = std::vector<std::string>;
  EXPECT_EQ(dims("routing"), (Names{"batch", "sequence", "choice"}));
  EXPECT_EQ(dims("gates"), (Names{"batch", "sequence", "choice"}));
  EXPECT_EQ(dims("counts"), (Names{"expert", "batch"}));
  for (const char* buffer : {"buffer", "product", "biased", "back"}) {
    EXPECT_EQ(dims(buffer), (Names{"expert", "batch", "capacity", "column"})) << buffer;
  }
  EXPECT_EQ(dims("y"), (Names{"batch", "sequence", "column"}));
}

// A routing and counts are integers and have no gradient.
TEST(Experts, IntegersAreMarked) {
  const Graph graph = parse_graph(kExperts, "experts");
  for (const Tensor& tensor : graph.tensors()) {
    const bool integer = tensor.name == "tokens" || tensor.name == "targets" ||
                         tensor.name == "routing" || tensor.name == "counts";
    EXPECT_EQ(tensor.dtype, integer ? DType::i32 : DType::f32) << tensor.name;
  }
}

double flops_of(const Graph& graph, const char* name) {
  const Op& op = op_of(graph, name);
  std::vector<Shape> inputs;
  for (const TensorId input : op.inputs) {
    inputs.push_back(graph.tensor(input).shape);
  }
  return forward_flops(op.kind, inputs, graph.tensor(op.output).shape, op.attributes);
}

TEST(Experts, FlopsAreThoseOfFullBuffers) {
  const Graph graph = parse_graph(kExperts, "experts");
  EXPECT_DOUBLE_EQ(flops_of(graph, "product"), 2.0 * (5 * 3 * 4) * 8 * 10);
  EXPECT_DOUBLE_EQ(flops_of(graph, "back"), 2.0 * (5 * 3 * 4) * 10 * 11);
  EXPECT_DOUBLE_EQ(flops_of(graph, "biased"), 5.0 * 3 * 4 * 10);
  EXPECT_DOUBLE_EQ(flops_of(graph, "buffer"), 0.0);               // copies
  EXPECT_DOUBLE_EQ(flops_of(graph, "y"), 2.0 * 5 * 6 * 11 * 2);   // two weighted rows
  EXPECT_DOUBLE_EQ(flops_of(graph, "routing"), 4.0 * 5 * 6 * 3);  // per logit
  EXPECT_DOUBLE_EQ(flops_of(graph, "gates"), 4.0 * 5 * 6 * 3);
  EXPECT_DOUBLE_EQ(flops_of(graph, "counts"), 5.0 * 6 * 2);  // per choice
}

struct WrongUse {
  const char* statements;
  const char* message;
};

class WrongExperts : public testing::TestWithParam<WrongUse> {};

TEST_P(WrongExperts, AreRefusedWithTheReason) {
  EXPECT_NO_THROW(experts_and(""));
  try {
    experts_and(GetParam().statements);
    FAIL() << "accepted: " << GetParam().statements;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    DTypes, WrongExperts,
    testing::Values(
        WrongUse{"a = embedding(gates, table)\n", "a: expected tokens of i32, found gates of f32"},
        WrongUse{"input b : f32[5, 6]\na = cross_entropy(y, b)\n",
                 "a: expected targets of i32, found b of f32"},
        WrongUse{"a = relu(tokens)\n", "a: expected x of f32, found tokens of i32"},
        WrongUse{"a = add(routing, routing)\n", "a: expected a of f32, found routing of i32"},
        WrongUse{"a = combine(back, routing, routing)\n",
                 "a: expected weights of f32, found routing of i32"},
        WrongUse{"input b : i32[5, 6, 8]\na = dispatch(b, routing)\n",
                 "a: expected x of f32, found b of i32"},
        WrongUse{"input b : i32[5, 6, 3]\na = route(b) {capacity=1}\n",
                 "a: expected logits of f32, found b of i32"},
        WrongUse{"a = route_chosen(logits, gates) {capacity=1, choices=2}\n",
                 "a: expected chosen of i32, found gates of f32"},
        WrongUse{"input b : i32[5, 6, 3]\na = route_chosen(logits, b) {capacity=1, choices=2}\n",
                 "chosen[batch, sequence, choices]"},
        WrongUse{"input b : i32[5, 6, 3]\na = gate(b, routing)\n",
                 "a: expected logits of f32, found b of i32"}));

INSTANTIATE_TEST_SUITE_P(
    Routings, WrongExperts,
    testing::Values(
        // These integers have a routing's shape, but no route operation made them.
        WrongUse{"a = gate(logits, gates)\n", "a: gates is not a routing"},
        WrongUse{"a = expert_counts(logits)\n", "a: logits is not a routing"},
        WrongUse{"input b : i32[5, 6, 2]\na = dispatch(x, b)\n", "a: b is not a routing"},
        WrongUse{"input b : i32[5, 6, 2]\na = combine(back, b, gates)\n", "a: b is not a routing"},
        // These counts are of other values, or of a routing with another capacity.
        WrongUse{"a = expert_matmul(buffer, up, routing)\n",
                 "a: routing does not count the slots of buffer"},
        WrongUse{"input b : i32[3, 5]\na = expert_bias(product, up.bias, b)\n",
                 "a: b does not count the slots of product"},
        WrongUse{"routing.b = route(logits) {capacity=2}\ncounts.b = expert_counts(routing.b)\n"
                 "a = expert_matmul(buffer, up, counts.b)\n",
                 "a: counts.b does not count the slots of buffer"},
        WrongUse{"routing.b = route(logits) {capacity=2}\ncounts.b = expert_counts(routing.b)\n"
                 "a = expert_bias(product, up.bias, counts.b)\n",
                 "a: counts.b does not count the slots of product"},
        // These rows are not those that were counted.
        WrongUse{"routing.b = route(logits) {capacity=6}\ncounts.b = expert_counts(routing.b)\n"
                 "a = expert_pack(x, routing.b, counts.b) {first=2, rows=2}\n",
                 "a: counts.b does not count 2 rows of every expert and sequence from row 2 on"},
        WrongUse{"routing.b = route(logits) {capacity=6}\ncounts.b = expert_counts(routing.b)\n"
                 "round = round_counts(counts.b) {first=2, rows=2}\n"
                 "a = expert_pack(x, routing.b, round)\n",
                 "a: round does not count all rows"},
        WrongUse{"round = round_counts(counts) {first=2}\n", "round: expected rows, the rows of"},
        // These buffers or attributes have another capacity or number of experts.
        WrongUse{"routing.b = route(logits) {capacity=2, choices=2}\n"
                 "a = combine(back, routing.b, gates)\n",
                 "of the routing's experts and capacity"},
        WrongUse{
            "parameter r : f32[8, 4] = zeros\nl = matmul(x, r)\n"
            "routing.b = route(l) {capacity=4, choices=2}\na = combine(back, routing.b, gates)\n",
            "of the routing's experts and capacity"},
        WrongUse{"parameter r : f32[8, 4] = zeros\nl = matmul(x, r)\na = gate(l, routing)\n",
                 "a: expected logits[batch, sequence, experts] and routing"},
        WrongUse{"a = dispatch(x, routing) {capacity=5}\n",
                 "a: capacity is 5, but 4 in the routing"},
        WrongUse{"a = gate(logits, routing) {experts=2}\n",
                 "a: experts is 2, but 3 in the routing"},
        WrongUse{"a = expert_counts(routing) {experts=4}\n",
                 "a: experts is 4, but 3 in the routing"}));

INSTANTIATE_TEST_SUITE_P(
    Shapes, WrongExperts,
    testing::Values(
        WrongUse{"a = route(logits)\n",
                 "a: expected capacity to be a whole number from 1 to 1000000000, found 0"},
        WrongUse{"a = route(logits) {capacity=1.5}\n",
                 "expected capacity to be a whole number from 1 to 1000000000, found 1.5"},
        WrongUse{"a = route(logits) {capacity=1, choices=4}\n", "logits[batch, sequence, experts]"},
        WrongUse{"a = route(logits) {capacity=1, choices=0}\n",
                 "expected choices to be a whole number from 1 to 1000000000, found 0"},
        WrongUse{"a = route(logits) {capacity=1, balance_loss=-1}\n",
                 "expected balance_loss to be 0 or from 1e-30 to 1e+30, found -1"},
        WrongUse{"a = route(up.bias) {capacity=1}\n", "logits[batch, sequence, experts]"},
        WrongUse{"a = dispatch(table, routing)\n", "x[batch, sequence, width] and routing"},
        WrongUse{"parameter w : f32[3, 9, 10] = zeros\na = expert_matmul(buffer, w, counts)\n",
                 "x[experts, batch, capacity, k], weight[experts, k, n]"},
        WrongUse{"parameter w : f32[2, 8, 10] = zeros\na = expert_matmul(buffer, w, counts)\n",
                 "x[experts, batch, capacity, k], weight[experts, k, n]"},
        WrongUse{"a = expert_matmul(x, up, counts)\n", "does not count the slots of x"},
        WrongUse{"parameter b : f32[3, 8] = zeros\na = expert_bias(product, b, counts)\n",
                 "bias[experts, n]"},
        WrongUse{"parameter b : f32[10] = zeros\na = expert_bias(product, b, counts)\n",
                 "bias[experts, n]"},
        WrongUse{"a = combine(x, routing, gates)\n", "buffer[experts, batch, capacity, width]"},
        WrongUse{"a = combine(back, routing, x)\n", "weights like it"},
        WrongUse{"a = expert_counts(routing, x)\n", "expert_counts takes 1 input(s), found 2"},
        WrongUse{"a = expert_counts(routing) {choices=1}\n",
                 "expert_counts: there is no attribute choices; there are capacity, experts"}));

}  // namespace
}  // namespace hidup
