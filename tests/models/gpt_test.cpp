// GPT-2 as tests/golden/make_golden.py defines it with PyTorch, and the decks with its sizes.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "models/transformer.h"
#include "small_deck.h"

namespace hidup {
namespace {

Deck gpt_deck(double dropout, const MoeDeck& moe = {}) {
  Deck deck = small_deck_of("gpt", moe);
  deck.model->dropout = dropout;
  return deck;
}

void expect_contains(const Graph& graph, const std::string& expected) {
  const std::string text = print_graph(graph);
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

// Weights before a residual connection are initialized with 0.02 / sqrt(2 layers).
TEST(Gpt, Parameters) {
  expect_contains(build_model(gpt_deck(0.1), 31), R"(graph gpt

input tokens : i32[5, 7]
input targets : i32[5, 7]
parameter embedding.weight : f32[31, 12] = normal(0.02) decay
parameter positions.weight : f32[7, 12] = normal(0.02) decay
parameter layers.0.norm1.weight : f32[12] = ones
parameter layers.0.norm1.bias : f32[12] = zeros
parameter layers.0.attention.qkv.weight : f32[12, 3, 3, 4] = normal(0.02) decay
parameter layers.0.attention.qkv.bias : f32[3, 3, 4] = zeros
parameter layers.0.attention.out.weight : f32[3, 4, 12] = normal(0.01) decay
parameter layers.0.attention.out.bias : f32[12] = zeros
parameter layers.0.norm2.weight : f32[12] = ones
parameter layers.0.norm2.bias : f32[12] = zeros
parameter layers.0.ffn.up.weight : f32[12, 20] = normal(0.02) decay
parameter layers.0.ffn.up.bias : f32[20] = zeros
parameter layers.0.ffn.down.weight : f32[20, 12] = normal(0.01) decay
parameter layers.0.ffn.down.bias : f32[12] = zeros
parameter layers.1.norm1.weight : f32[12] = ones
)");
}

// Norms precede both halves of a block and follow the last one; the head is the embedding.
TEST(Gpt, ABlockAndTheEnds) {
  const Graph graph = build_model(gpt_deck(0.1), 31);
  expect_contains(graph, R"(
embedding = embedding(tokens, embedding.weight) {scale=1} : f32[5, 7, 12]
positions = bias(embedding, positions.weight) : f32[5, 7, 12]
embedding.dropout = dropout(positions) {p=0.1} : f32[5, 7, 12]
layers.0.norm1 = layer_norm(embedding.dropout, layers.0.norm1.weight, layers.0.norm1.bias) {epsilon=1e-05} : f32[5, 7, 12]
layers.0.attention.qkv = matmul(layers.0.norm1, layers.0.attention.qkv.weight) {contract=1, transposed=0} : f32[5, 7, 3, 3, 4]
layers.0.attention.qkv.biased = bias(layers.0.attention.qkv, layers.0.attention.qkv.bias) : f32[5, 7, 3, 3, 4]
layers.0.attention = attention(layers.0.attention.qkv.biased) {causal=1} : f32[5, 7, 3, 4]
layers.0.attention.out = matmul(layers.0.attention, layers.0.attention.out.weight) {contract=2, transposed=0} : f32[5, 7, 12]
layers.0.attention.out.biased = bias(layers.0.attention.out, layers.0.attention.out.bias) : f32[5, 7, 12]
layers.0.attention.dropout = dropout(layers.0.attention.out.biased) {p=0.1} : f32[5, 7, 12]
layers.0.attention.residual = add(embedding.dropout, layers.0.attention.dropout) : f32[5, 7, 12]
layers.0.norm2 = layer_norm(layers.0.attention.residual, layers.0.norm2.weight, layers.0.norm2.bias) {epsilon=1e-05} : f32[5, 7, 12]
layers.0.ffn.up = matmul(layers.0.norm2, layers.0.ffn.up.weight) {contract=1, transposed=0} : f32[5, 7, 20]
layers.0.ffn.up.biased = bias(layers.0.ffn.up, layers.0.ffn.up.bias) : f32[5, 7, 20]
layers.0.ffn.gelu = gelu(layers.0.ffn.up.biased) : f32[5, 7, 20]
layers.0.ffn.down = matmul(layers.0.ffn.gelu, layers.0.ffn.down.weight) {contract=1, transposed=0} : f32[5, 7, 12]
layers.0.ffn.down.biased = bias(layers.0.ffn.down, layers.0.ffn.down.bias) : f32[5, 7, 12]
layers.0.ffn.dropout = dropout(layers.0.ffn.down.biased) {p=0.1} : f32[5, 7, 12]
layers.0.ffn.residual = add(layers.0.attention.residual, layers.0.ffn.dropout) : f32[5, 7, 12]
layers.1.norm1 = layer_norm(layers.0.ffn.residual,)");
  expect_contains(graph, R"(
norm = layer_norm(layers.1.ffn.residual, norm.weight, norm.bias) {epsilon=1e-05} : f32[5, 7, 12]
head = matmul(norm, embedding.weight) {contract=1, transposed=1} : f32[5, 7, 31]
loss = cross_entropy(head, targets) : f32[]
)");
}

TEST(Gpt, ExpertsHaveGeluToo) {
  const MoeDeck moe = {.experts = 5, .every = 2, .router = "top1", .capacity_factor = 1.0};
  const Graph graph = build_model(gpt_deck(0.0, moe), 31);
  EXPECT_GE(graph.find("layers.0.ffn.gelu"), 0);
  expect_contains(graph, R"(
layers.1.moe.experts.gelu = gelu(layers.1.moe.experts.up.biased) : f32[5, 5, 2, 20]
layers.1.moe.experts.down = expert_matmul(layers.1.moe.experts.gelu, )");
  expect_contains(graph, R"(
layers.1.moe.residual = add(layers.1.attention.residual, layers.1.moe.combine) : f32[5, 7, 12]
norm = )");
}

// The decks have the sizes of OpenAI's checkpoints.
TEST(Gpt, DecksHaveTheParametersOfGpt2) {
  const auto parameters = [](const std::string& name) {
    const DeckSource source = read_deck_file(HIDUP_INPUTS "/models/" + name + ".yaml");
    const Deck deck = parse_decks(&source, nullptr, {});
    return build_model(deck, deck.model->vocab.value()).parameter_count();
  };
  EXPECT_EQ(parameters("gpt2-124m"), 124439808);
  EXPECT_EQ(parameters("gpt2-350m"), 354823168);
}

}  // namespace
}  // namespace hidup
