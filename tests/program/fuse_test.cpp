#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "sharding/rules.h"
#include "token_graph.h"
#include "verified_program.h"

namespace hidup {
namespace {

// Returns a graph of a product x w + b of x [4, 6, 8] and the operations that read it.
Graph graph_with(const std::string& operations, const std::string& parameters = "") {
  return token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter w : f32[8, 10] = uniform(0.1)
parameter b : f32[10] = zeros
)" + parameters + R"(x = embedding(tokens, table)
)" + operations);
}

Program on_one_rank(const Graph& graph, bool fuse = true) {
  return verified_program(graph, named_strategy("dp", graph, {{"ranks", 1}}), fuse);
}

// Every operation has the named rule on two ranks; parameters are whole unless `stored` has them.
Program on_two_ranks(const Graph& graph, const std::map<std::string, std::string>& rules,
                     const std::map<std::string, Placement>& stored = {},
                     int64_t bucket_bytes = 1) {
  Strategy strategy = named_strategy("dp", graph, {{"ranks", 2}});
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].rules = {
        find_rule(graph, op, rules.at(graph.op_name(op)))};
  }
  for (ParameterStrategy& parameter : strategy.parameters) {
    const auto found = stored.find(graph.tensor(parameter.tensor).name);
    if (found != stored.end()) {
      parameter.storage = parameter.optimizer_state = {found->second};
    }
  }
  return verified_program(graph, strategy, true, bucket_bytes);
}

TEST(Fuse, AProductTakesInItsBias) {
  const Graph graph = graph_with(R"(p = matmul(x, w)
y = bias(p, b)
loss = cross_entropy(y, targets)
)");
  const Program program = on_one_rank(graph);
  EXPECT_EQ(forward_opcodes(program), (Names{"embedding", "matmul_bias", "cross_entropy"}));
  const Instruction& product = find_opcode(program, Opcode::matmul_bias);
  EXPECT_EQ(product.inputs.size(), 3U);
  EXPECT_EQ(program.value(product.inputs[2]).name, "b");
  EXPECT_EQ(product.outputs,
            (std::vector<ValueId>{find_opcode(program, Opcode::cross_entropy).inputs[0]}));
  EXPECT_EQ(forward_opcodes(on_one_rank(graph, false)),
            (Names{"embedding", "matmul", "bias", "cross_entropy"}));
}

TEST(Fuse, AndTheReluBehindIt) {
  const Graph graph = graph_with(R"(p = matmul(x, w)
y = bias(p, b)
z = relu(y)
loss = cross_entropy(z, targets)
)");
  EXPECT_EQ(forward_opcodes(on_one_rank(graph)),
            (Names{"embedding", "matmul_bias_relu", "cross_entropy"}));
}

// The backward pass of GELU reads its input.
TEST(Fuse, AGeluKeepsItsInput) {
  const Graph graph = graph_with(R"(p = matmul(x, w)
y = bias(p, b)
z = gelu(y)
loss = cross_entropy(z, targets)
)");
  const Program program = on_one_rank(graph);
  EXPECT_EQ(forward_opcodes(program), (Names{"embedding", "matmul_bias_gelu", "cross_entropy"}));
  const Instruction& product = find_opcode(program, Opcode::matmul_bias_gelu);
  ASSERT_EQ(product.outputs.size(), 2U);
  EXPECT_EQ(product.outputs[0], find_opcode(program, Opcode::cross_entropy).inputs[0]);
  EXPECT_EQ(product.outputs[1], find_opcode(program, Opcode::gelu_backward).inputs[0]);
}

struct BiasCase {
  const char* operations;
  Names opcodes;  // of the forward pass
  const char* parameters = "";
};

TEST(Fuse, TheBiasOfTheColumnsOfAProductThatNobodyElseReads) {
  const std::vector<BiasCase> cases = {
      // The columns have several dimensions.
      {R"(p = matmul(x, v)
y = bias(p, c)
q = matmul(y, u) {contract=2}
z = bias(q, b)
loss = cross_entropy(z, targets)
)",
       {"embedding", "matmul_bias", "matmul_bias", "cross_entropy"},
       R"(parameter v : f32[8, 2, 3] = uniform(0.1)
parameter c : f32[2, 3] = zeros
parameter u : f32[2, 3, 10] = uniform(0.1)
)"},
      // Positions are no bias of the columns.
      {R"(p = matmul(x, w)
y = bias(p, positions)
loss = cross_entropy(y, targets)
)",
       {"embedding", "matmul", "bias", "cross_entropy"},
       "parameter positions : f32[6, 10] = zeros\n"},
      // The product is read twice.
      {R"(p = matmul(x, w)
y = bias(p, b)
z = add(p, y)
loss = cross_entropy(z, targets)
)",
       {"embedding", "matmul", "bias", "add", "cross_entropy"}},
      // The biased product is read twice.
      {R"(p = matmul(x, w)
y = bias(p, b)
r = relu(y)
z = add(y, r)
loss = cross_entropy(z, targets)
)",
       {"embedding", "matmul_bias", "relu", "add", "cross_entropy"}},
  };
  for (const BiasCase& one : cases) {
    EXPECT_EQ(forward_opcodes(on_one_rank(graph_with(one.operations, one.parameters))), one.opcodes)
        << one.operations;
  }
}

const char* const kBiased = R"(p = matmul(x, w)
y = bias(p, b)
z = relu(y)
loss = cross_entropy(z, targets)
)";

TEST(Fuse, APartialSumIsNotFusedBeforeItIsWhole) {
  const Program program = on_two_ranks(
      graph_with(kBiased),
      {{"x", "column"}, {"p", "row"}, {"y", "batch"}, {"z", "batch"}, {"loss", "batch"}});
  const Names names = forward_opcodes(program);
  EXPECT_EQ(std::ranges::count(names, "matmul"), 1);
  EXPECT_EQ(std::ranges::count(names, "bias"), 1);
  EXPECT_EQ(std::ranges::count(names, "relu"), 1);
}

TEST(Fuse, ALocalPieceOfTheBiasIsCutOutBefore) {
  const Program program = on_two_ranks(
      graph_with(kBiased),
      {{"x", "replicate"}, {"p", "column"}, {"y", "column"}, {"z", "column"}, {"loss", "batch"}},
      {{"w", Placement::shard(1)}});
  const Names names = forward_opcodes(program);
  const auto product = std::ranges::find(names, "matmul_bias_relu");
  ASSERT_NE(product, names.end());
  EXPECT_EQ(*std::prev(product), "slice");
  EXPECT_EQ(std::ranges::count(names, "bias"), 0);
}

TEST(Fuse, NotWhereTheBiasIsGatheredInBetween) {
  const std::map<std::string, std::string> by_batch = {
      {"x", "batch"}, {"p", "batch"}, {"y", "batch"}, {"z", "batch"}, {"loss", "batch"}};
  const std::map<std::string, Placement> stored = {{"w", Placement::shard(0)},
                                                   {"b", Placement::shard(0)}};
  EXPECT_EQ(forward_opcodes(on_two_ranks(graph_with(kBiased), by_batch, stored)),
            (Names{"embedding", "all_gather", "matmul", "all_gather", "bias", "relu",
                   "cross_entropy", "all_reduce"}));
  // In one bucket with its weight the bias comes early enough.
  EXPECT_EQ(forward_opcodes(on_two_ranks(graph_with(kBiased), by_batch, stored, 1 << 20)),
            (Names{"embedding", "all_gather", "matmul_bias_relu", "cross_entropy", "all_reduce"}));
}

TEST(Fuse, EveryMicrobatchByItself) {
  const Graph graph = graph_with(kBiased);
  Strategy strategy = named_strategy("dp", graph, {{"ranks", 1}});
  strategy.microbatches = 2;
  EXPECT_EQ(forward_opcodes(verified_program(graph, strategy)),
            (Names{"embedding", "matmul_bias_relu", "cross_entropy", "embedding",
                   "matmul_bias_relu", "cross_entropy"}));
}

// Fusing saves no flops, but leaves one pass over the result of five (GELU: two, for its input).
TEST(Fuse, SavesBytesAndNoFlops) {
  for (const std::string activation : {"relu", "gelu"}) {
    const Graph graph = graph_with("p = matmul(x, w)\ny = bias(p, b)\nz = " + activation +
                                   "(y)\nloss = cross_entropy(z, targets)\n");
    const auto total = [&](bool fuse, double Instruction::*amount) {
      double sum = 0.0;
      for (const Instruction& instruction : on_one_rank(graph, fuse).instructions) {
        sum += instruction.phase == Phase::forward ? instruction.*amount : 0.0;
      }
      return sum;
    };
    EXPECT_EQ(total(true, &Instruction::flops), total(false, &Instruction::flops));
    const double result = 4.0 * 6.0 * 10.0 * 4.0;
    EXPECT_EQ(total(false, &Instruction::bytes) - total(true, &Instruction::bytes),
              (activation == "gelu" ? 3.0 : 4.0) * result);
  }
}

TEST(Fuse, TakesNoMoreMemory) {
  const Graph graph = build_model(sample_deck(), 31);
  const Strategy strategy = named_strategy("megatron", graph, {{"ranks", 2}});
  EXPECT_EQ(plan_memory(verified_program(graph, strategy, true), 0).bytes,
            plan_memory(verified_program(graph, strategy, false), 0).bytes);
}

}  // namespace
}  // namespace hidup
