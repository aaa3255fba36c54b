#include "graph/text.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace hidup {
namespace {

constexpr const char* kSmall = R"(graph small

input tokens : i32[4, 6]
input targets : i32[4, 6]
parameter table : f32[10, 8] = uniform(0.1) decay
parameter norm.weight : f32[8] = ones
parameter norm.bias : f32[8] = zeros
parameter head.weight : f32[10, 8] = normal(0.35355339059327373) decay

x = embedding(tokens, table) {scale=2.8284271247461903} : f32[4, 6, 8]
norm = layer_norm(x, norm.weight, norm.bias) {epsilon=1e-05} : f32[4, 6, 8]
head = matmul(norm, head.weight) {contract=1, transposed=1} : f32[4, 6, 10]
loss = cross_entropy(head, targets) : f32[]
)";

TEST(GraphText, PrintsWhatItParsed) {
  const Graph graph = parse_graph(kSmall, "small.graph");
  EXPECT_EQ(print_graph(graph), kSmall);
  EXPECT_EQ(graph.parameter_count(), 80 + 8 + 8 + 80);
  EXPECT_EQ(graph.tensor(graph.loss()).name, "loss");
}

TEST(GraphText, TypesDefaultsAndCommentsAreOptional) {
  const Graph graph = parse_graph(
      "# a comment\ngraph g\n\ninput a : f32[2, 3]   # another\n  b = relu(a)\r\n"
      "c = dropout(b)\n",
      "g");
  EXPECT_EQ(graph.tensor(graph.find("c")).shape, (Shape{2, 3}));
  EXPECT_EQ(graph.op(1).as<DropoutAttributes>().p, 0.0);
}

TEST(GraphText, HashFollowsTheText) {
  const Graph graph = parse_graph(kSmall, "small.graph");
  std::string other = kSmall;
  other.replace(other.find("uniform(0.1)"), 12, "uniform(0.2)");
  EXPECT_NE(graph_hash(graph), graph_hash(parse_graph(other, "other.graph")));
}

struct WrongText {
  const char* text;
  const char* message;
};

class WrongGraph : public testing::TestWithParam<WrongText> {};

TEST_P(WrongGraph, IsRefusedWithItsPlace) {
  try {
    parse_graph(GetParam().text, "g");
    FAIL() << "accepted: " << GetParam().text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find(GetParam().message), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongGraph,
    testing::Values(
        WrongText{"", "expected `graph NAME`"}, WrongText{"graph g\n", "at least one operation"},
        WrongText{"input a : f32[2]\n", "g:1:1: expected `graph NAME` first"},
        WrongText{"graph g\ngraph h\n", "g:2:1: a file holds one graph"},
        WrongText{"graph g\ninput a : f64[2]\n", "g:2:11: unknown type f64"},
        WrongText{"graph g\ninput a : f32[2, x]\n", "g:2:18: expected a number"},
        WrongText{"graph g\ninput a : f32[-2]\n", "g:2:15: expected an extent"},
        WrongText{"graph g\ninput a : f32[2, 0]\n",
                  "g:2:18: expected an extent, a whole number from 1 to 1000000000000000"},
        WrongText{"graph g\ninput a : f32[1e300]\n", "g:2:15: expected an extent"},
        WrongText{"graph g\ninput a : f32[1000000000, 1000000000]\n",
                  "g:2:1: a of shape [1000000000, 1000000000]: this and all tensors before have "
                  "1e+18 elements, more than 2^56 = 7.21e+16"},
        WrongText{"graph g\ninput a : f32[1000000000000000, 70]\ninput b : "
                  "f32[1000000000000000, 3]\n",
                  "g:3:1: b of shape"},
        WrongText{"graph g\ninput a : f32[1, 1, 1, 1, 1, 1, 1]\n",
                  "g:2:1: a has 7 dimensions, more than 6"},
        WrongText{"graph g\ninput \x1b[31m : f32[2]\n",
                  "g:2:7: expected a name, found '\\x1b[31m : f32[2]'"},
        WrongText{"graph g\ninput a : f32[2]\ninput a : f32[2]\n", "g:3:1: a is defined twice"},
        WrongText{"graph g\nparameter w : f32[2] = gauss\n", "g:2:24: expected zeros, ones"},
        WrongText{"graph g\nparameter w : i32[2] = ones\n",
                  "g:2:15: a parameter is f32, bf16 or f16"},
        WrongText{"graph g\ninput a : f32[2]\nb = relo(a)\n",
                  "unknown operation relo (did you mean relu?); there are embedding, positions"},
        WrongText{"graph g\ninput abc : f32[2]\nb = relu(abd)\n", "did you mean abc?"},
        WrongText{"graph g\ninput a : f32[2]\nb = relu(a, a)\n", "g:3:1: b: relu takes 1 input(s)"},
        WrongText{"graph g\ninput a : f32[2]\nb = relu(a) : f32[3]\n", "g:3:15: b is f32[2]"},
        WrongText{"graph g\ninput a : f32[2]\nb = relu(a) {p=1}\n",
                  "g:3:14: relu: there is no attribute p, and no other"},
        WrongText{"graph g\ninput a : f32[2]\nb = matmul(a, a) {contrakt=2}\n",
                  "g:3:19: matmul: there is no attribute contrakt (did you mean contract?); there "
                  "are contract, transposed"},
        WrongText{"graph g\ninput a : f32[2]\nb = relu(a) x\n", "expected the end of the line"},
        WrongText{"graph g\ninput a : f32[2]\nb relu(a)\n", "expected input, parameter or NAME ="},
        WrongText{"graph g\nparameter w : f32[2] = uniform(0)\n",
                  "g:2:32: expected a bound from 1e-30 to 1e+30"},
        WrongText{"graph g\nparameter w : f32[2] = normal(0)\n",
                  "g:2:31: expected a standard deviation from 1e-30"},
        WrongText{"graph g\nparameter w : f32[2] = normal(1e-300)\n",
                  "g:2:31: expected a standard deviation from 1e-30"},
        WrongText{"graph g\ninput a : i32[2]\nparameter w : f32[2, 2] = ones\n"
                  "b = embedding(a, w) {scale=1e300}\n",
                  "g:4:22: embedding: expected scale to be from 1e-30 to 1e+30, found 1e+300"},
        WrongText{
            "graph g\ninput a : f32[2]\nb = dropout(a) {p=0.99999999999}\n",
            "g:3:17: dropout: expected p to be 0 or from 1e-06 to 0.999, found 0.99999999999"},
        WrongText{"graph g\nparameter w : f32[2] = normal\n", "g:2:30: expected '('"},
        WrongText{"graph g\nparameter w : f32[2] = uniform(inf)\n", "g:2:32: expected a number"},
        WrongText{"graph g\ninput a : f32[2]\nb = dropout(a) {p=1}\n",
                  "g:3:17: dropout: expected p to be 0 or from 1e-06 to 0.999, found 1"},
        WrongText{"graph g\ninput a : f32[2]\nb = layer_norm(a, a, a) {epsilon=0}\n",
                  "g:3:26: layer_norm: expected epsilon to be from 1e-30 to 1, found 0"},
        WrongText{"graph g\ninput a : f32[2, 3, 3, 1, 4]\nb = attention(a) {causal=2}\n",
                  "g:3:19: attention: expected causal to be 0 or 1, found 2"},
        WrongText{"graph g\ninput a : f32[2, 3]\nb = matmul(a, a) {transposed=0.5}\n",
                  "g:3:19: matmul: expected transposed to be 0 or 1, found 0.5"},
        WrongText{"graph g\ninput a : f32[2, 2]\nb = matmul(a, a) {contract=0.5}\n",
                  "g:3:19: matmul: expected contract to be a whole number from 1 to 1000000000, "
                  "found 0.5"}));

TEST(GraphText, QuotesAtMostPartOfALine) {
  const std::string name(1000000, 'x');
  for (const std::string& statement :
       {name, "b = " + name + "(a)", "b = relu(" + name + ")", std::string(1000000, '!')}) {
    const std::string text = "graph g\ninput a : f32[2]\n" + statement + "\n";
    try {
      parse_graph(text, "g");
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 400U);
    }
  }
}

}  // namespace
}  // namespace hidup
