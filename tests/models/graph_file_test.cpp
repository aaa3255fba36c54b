#include "models/graph_file.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "deck/data_deck.h"
#include "graph/text.h"
#include "models/transformer.h"
#include "small_deck.h"

namespace hidup {
namespace {

TEST(ReadGraph, TakesWhatWasBuilt) {
  const MoeDeck none;
  const MoeDeck top2 = {.experts = 5, .every = 2, .router = "top2", .capacity_factor = 1.0};
  const MoeDeck top1 = {.experts = 3, .every = 1, .router = "top1", .capacity_factor = 1.25};
  for (const MoeDeck& moe : {none, top2, top1}) {
    const Deck deck = small_deck_of("bert", moe);
    const Graph built = build_model(deck, 31);
    const std::string text = print_graph(built);
    const Graph read = read_graph(text, "model.txt", deck, 31);
    EXPECT_EQ(print_graph(read), text);
    EXPECT_EQ(graph_hash(read), graph_hash(built));
  }
}

// The tests below use the line numbers of this text.
constexpr const char* kGraph = R"(graph own
input tokens : i32[5, 7]
  input targets : i32[5, 7]
parameter table : f32[31, 6] = uniform(0.1)
parameter router : f32[6, 3] = uniform(0.1)
parameter head : f32[6, 33] = uniform(0.1)
x = embedding(tokens, table)
logits = matmul(x, router)
routing = route(logits) {capacity=2}
gates = gate(logits, routing)
buffer = dispatch(x, routing)
z = combine(buffer, routing, gates)
y = matmul(z, head)
loss = cross_entropy(y, targets)
)";

constexpr const char* kInputs = "input tokens : i32[5, 7]\n  input targets : i32[5, 7]\n";

TEST(ReadGraph, LeavesRoomForTheVocabulary) {
  EXPECT_NO_THROW(read_graph(kGraph, "own.txt", small_deck_of("bert"), 31));
  EXPECT_NO_THROW(read_graph(kGraph, "own.txt", small_deck_of("bert"), 4));  // rows may stay unused
}

struct Wrong {
  const char* from;
  const char* to;
  const char* message;
};

class WrongGraphFile : public testing::TestWithParam<Wrong> {};

TEST_P(WrongGraphFile, IsRefusedWithItsPlace) {
  std::string text = kGraph;
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  try {
    read_graph(text, "own.txt", small_deck_of("bert"), 31);
    FAIL() << "accepted: " << GetParam().to;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, WrongGraphFile,
    testing::Values(
        Wrong{kInputs, "input tokens : i32[4, 7]\n  input targets : i32[4, 7]\n",
              "own.txt:2:7: input tokens is i32[4, 7], but train.batch and model.sequence make it "
              "i32[5, 7]"},
        Wrong{kInputs, "\t input targets : i32[5, 8]\ninput tokens : i32[5, 8]\n",
              "own.txt:2:9: input targets is i32[5, 8], but train.batch and model.sequence make it "
              "i32[5, 7]"},
        Wrong{"graph own\n", "graph own\ninput mask : i32[5, 7]\n",
              "own.txt:2:7: input mask: a graph has the inputs tokens and targets"},
        Wrong{"loss = cross_entropy(y, targets)\n", "loss = cross_entropy(y, tokens)\n",
              "own.txt:3:9: targets is not used"}));

INSTANTIATE_TEST_SUITE_P(
    Loss, WrongGraphFile,
    testing::Values(
        Wrong{
            "loss = cross_entropy(y, targets)\n", "loss = relu(y)\n",
            "own.txt:14:1: loss: the last operation, and only that, is a cross_entropy: the loss"},
        Wrong{"loss = ", "first = cross_entropy(y, targets)\nloss = ",
              "own.txt:14:1: first: the last operation, and only that, is a cross_entropy: the "
              "loss"}));

INSTANTIATE_TEST_SUITE_P(
    Uses, WrongGraphFile,
    testing::Values(
        Wrong{"x = embedding", "parameter spare : f32[3] = zeros\nx = embedding",
              "own.txt:7:11: spare is not used"},
        Wrong{"y = matmul", "\tspare = relu(z)\ny = matmul", "own.txt:13:2: spare is not used"},
        Wrong{"y = matmul", "counts = expert_counts(routing)\ny = matmul",
              "own.txt:13:1: counts is not used"},
        // A router that no gate reads cannot learn.
        Wrong{"routing = route(logits)",
              "parameter choose : f32[6, 3] = zeros\nchoice = matmul(x, choose)\n"
              "routing = route(choice)",
              "own.txt:10:1: choice decides about routing only: no gradient reaches it"}));

INSTANTIATE_TEST_SUITE_P(
    Vocabulary, WrongGraphFile,
    testing::Values(Wrong{"table : f32[31, 6]", "table : f32[30, 6]",
                          "own.txt:4:11: table has 30 rows, but the data has 31 different tokens"},
                    Wrong{"head : f32[6, 33]", "head : f32[6, 30]",
                          "own.txt:13:1: y has 30 classes, but the data has 31 different tokens"}));

// Errors of parse_graph() keep their place.
INSTANTIATE_TEST_SUITE_P(
    Text, WrongGraphFile,
    testing::Values(Wrong{
        "dispatch(x, routing)", "dispach(x, routing)",
        "own.txt:11:10: unknown operation dispach (did you "
        "mean dispatch?); there are embedding, positions, rotary, "
        "prepend, first, matmul, wide_matmul, bias, relu, gelu, silu, swiglu, dropout, "
        "add, layer_norm, rms_norm, attention, grouped_attention, "
        "cross_entropy, route, route_biased, route_chosen, gate, "
        "expert_counts, dispatch, expert_matmul, "
        "expert_bias, combine, round_counts, expert_pack, expert_unpack"}));

TEST(ReadGraph, WantsBothInputs) {
  try {
    read_graph(
        "graph own\ninput tokens : i32[5, 7]\nparameter w : f32[31, 31] = ones\n"
        "x = embedding(tokens, w)\nloss = cross_entropy(x, tokens)\n",
        "own.txt", small_deck_of("bert"), 31);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "own.txt: a graph has the inputs tokens and targets");
  }
}

// The input has the right shape but is no integer.
TEST(ReadGraph, WantsIntegers) {
  try {
    read_graph(
        "graph own\ninput tokens : f32[5, 7]\ninput targets : i32[5, 7]\n"
        "parameter w : f32[7, 7, 31] = ones\nx = matmul(tokens, w)\n"
        "loss = cross_entropy(x, targets)\n",
        "own.txt", small_deck_of("bert"), 31);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "own.txt:2:7: input tokens is f32[5, 7], but train.batch and "
                 "model.sequence make it i32[5, 7]");
  }
}

TEST(ReadGraph, OfImages) {
  Deck deck = small_deck_of("bert");
  deck.model->family = "vit";
  deck.model->sequence = 65;
  deck.data->kind = "images";
  const std::string text = print_graph(build_model(deck, 10));
  EXPECT_EQ(print_graph(read_graph(text, "vit.txt", deck, 10)), text);
  const auto problem = [&](const std::string& changed) -> std::string {
    try {
      read_graph(changed, "vit.txt", deck, 10);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem(kGraph),
            "vit.txt:2:7: input tokens: a graph has the inputs images and targets");
  constexpr const char* kOther =
      "graph own\ninput images : f32[5, 8, 48]\ninput targets : i32[5]\n"
      "y = first(images)\nloss = cross_entropy(y, targets)\n";
  EXPECT_EQ(problem(kOther),
            "vit.txt:2:7: input images is f32[5, 8, 48], but train.batch and data.kind make it "
            "f32[5, 64, 48]");
}

}  // namespace
}  // namespace hidup
