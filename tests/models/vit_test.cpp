// The vision transformer as tests/golden/make_golden.py defines it with PyTorch.
#include <gtest/gtest.h>

#include "graph/text.h"
#include "models/transformer.h"
#include "small_deck.h"

namespace hidup {
namespace {

std::string text_of_vit(const MoeDeck& moe = {}) {
  Deck deck = small_deck_of("vit", moe);
  deck.model->sequence = 65;
  return print_graph(build_model(deck, 10));
}

void expect_contains(const std::string& text, const std::string& expected) {
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

TEST(Vit, PatchesTokenAndHead) {
  const std::string text = text_of_vit();
  expect_contains(text, R"(
patches = matmul(images, patches.weight) {contract=1, transposed=0} : f32[5, 64, 12]
patches.biased = bias(patches, patches.bias) : f32[5, 64, 12]
class_token = prepend(patches.biased, class_token.weight) : f32[5, 65, 12]
positions = bias(class_token, positions.weight) : f32[5, 65, 12]
embedding.dropout = dropout(positions) {p=0.1} : f32[5, 65, 12]
)");
  expect_contains(text, "layers.1.attention = attention(layers.1.attention.qkv.biased) {causal=0}");
  expect_contains(text, R"(
class = first(layers.1.norm2) : f32[5, 12]
head = matmul(class, head.weight) {contract=1, transposed=0} : f32[5, 10]
head.biased = bias(head, head.bias) : f32[5, 10]
loss = cross_entropy(head.biased, targets) : f32[]
)");
  expect_contains(text, "parameter class_token.weight : f32[12] = zeros decay\n");
  expect_contains(text, "parameter positions.weight : f32[65, 12] = normal(0.02) decay\n");
}

// An expert has ceil(1.25 x 2 x 65 / 4) = 41 slots.
TEST(Vit, ExpertsHaveSlotsForTheClassTokenToo) {
  expect_contains(
      text_of_vit({.experts = 4, .every = 2, .router = "top2", .capacity_factor = 1.25}),
      "{capacity=41, ");
}

}  // namespace
}  // namespace hidup
