#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "token_graph.h"
#include "verified_program.h"

namespace hidup {
namespace {

const std::string kSumAndNorm = R"(f = matmul(x, w)
s = add(x, f)
y = layer_norm(s, gamma, beta)
loss = cross_entropy(y, targets)
)";

// Returns the program of x [4, 6, 8] and the operations that read it.
Program residual_program(const std::string& operations, int64_t ranks = 1,
                         const std::string& strategy = "dp") {
  const Graph graph = token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter w : f32[8, 8] = uniform(0.1)
parameter gamma : f32[8] = ones
parameter beta : f32[8] = zeros
x = embedding(tokens, table)
)" + operations);
  return verified_program(graph, named_strategy(strategy, graph, {{"ranks", ranks}}));
}

TEST(FuseResidual, DropoutSumAndNorm) {
  const Program program = residual_program(R"(f = matmul(x, w)
d = dropout(f) {p=0.25}
s = add(x, d)
y = layer_norm(s, gamma, beta)
loss = cross_entropy(y, targets)
)");
  EXPECT_EQ(forward_opcodes(program),
            (Names{"embedding", "matmul", "residual_norm", "cross_entropy"}));
  const Instruction& norm = find_opcode(program, Opcode::residual_norm);
  const Instruction& backward = find_opcode(program, Opcode::layer_norm_backward);
  EXPECT_EQ(norm.inputs[0], find_opcode(program, Opcode::matmul).outputs[0]);
  EXPECT_EQ(norm.inputs[1], find_opcode(program, Opcode::embedding).outputs[0]);
  EXPECT_EQ(program.value(norm.inputs[2]).name, "gamma");
  EXPECT_EQ(program.value(norm.inputs[3]).name, "beta");
  EXPECT_EQ(norm.outputs,
            (std::vector<ValueId>{find_opcode(program, Opcode::cross_entropy).inputs[0],
                                  backward.inputs[0], backward.inputs[2], backward.inputs[3]}));
  EXPECT_EQ(norm.as<ResidualNormAttributes>().p, 0.25);
  EXPECT_EQ(norm.purpose,
            find_opcode(program, Opcode::dropout).purpose);  // that of the backward pass
  EXPECT_EQ(norm.purpose, "dropout/d");
}

TEST(FuseResidual, SumAndNorm) {
  const Program program = residual_program(kSumAndNorm);
  EXPECT_EQ(forward_opcodes(program),
            (Names{"embedding", "matmul", "residual_norm", "cross_entropy"}));
  const Instruction& norm = find_opcode(program, Opcode::residual_norm);
  EXPECT_EQ(norm.inputs[0], find_opcode(program, Opcode::matmul).outputs[0]);
  EXPECT_EQ(norm.inputs[1], find_opcode(program, Opcode::embedding).outputs[0]);
  EXPECT_EQ(norm.as<ResidualNormAttributes>().p, 0.0);
}

TEST(FuseResidual, SumAndRmsNorm) {
  for (const bool drops : {false, true}) {
    const Program program = residual_program(std::string("f = matmul(x, w)\n") +
                                             (drops ? "d = dropout(f) {p=0.25}\n" : "") +
                                             "s = add(x, " + (drops ? "d" : "f") + R"()
y = rms_norm(s, gamma)
t = add(s, y)
b = bias(t, beta)
loss = cross_entropy(b, targets)
)");
    const Instruction& norm = find_opcode(program, Opcode::residual_rms_norm);
    const Instruction& backward = find_opcode(program, Opcode::rms_norm_backward_add);
    EXPECT_EQ(norm.inputs[0], find_opcode(program, Opcode::matmul).outputs[0]);
    EXPECT_EQ(norm.inputs[1], find_opcode(program, Opcode::embedding).outputs[0]);
    EXPECT_EQ(program.value(norm.inputs[2]).name, "gamma");
    EXPECT_EQ(norm.inputs.size(), 3U);
    EXPECT_EQ(norm.outputs[1], backward.inputs[0]);
    EXPECT_EQ(norm.outputs[2], backward.inputs[2]);
    EXPECT_EQ(norm.as<ResidualNormAttributes>().p, drops ? 0.25 : 0.0);
  }
}

struct NormCase {
  const char* operations;
  Names opcodes;  // of the forward pass
};

TEST(FuseResidual, WhatFollowsDirectlyAndNobodyElseReads) {
  const std::vector<NormCase> cases = {
      // The sum has another reader, as in models that normalize before a branch.
      {R"(f = matmul(x, w)
d = dropout(f) {p=0.25}
s = add(x, d)
y = layer_norm(s, gamma, beta)
t = add(s, y)
loss = cross_entropy(t, targets)
)",
       {"embedding", "matmul", "residual_norm", "add", "cross_entropy"}},
      // The dropout's output has other readers.
      {R"(f = matmul(x, w)
d = dropout(f) {p=0.25}
s = add(x, d)
y = layer_norm(s, gamma, beta)
t = add(y, d)
loss = cross_entropy(t, targets)
)",
       {"embedding", "matmul", "dropout", "residual_norm", "add", "cross_entropy"}},
      {R"(f = matmul(x, w)
d = dropout(f) {p=0.25}
s = add(x, d)
r = relu(s)
y = layer_norm(r, gamma, beta)
loss = cross_entropy(y, targets)
)",
       {"embedding", "matmul", "dropout", "add", "relu", "layer_norm", "cross_entropy"}},
  };
  for (const NormCase& one : cases) {
    EXPECT_EQ(forward_opcodes(residual_program(one.operations)), one.opcodes) << one.operations;
  }
  const Program sum_goes_on = residual_program(cases[0].operations);
  EXPECT_EQ(find_opcode(sum_goes_on, Opcode::add).inputs[0],
            find_opcode(sum_goes_on, Opcode::residual_norm).outputs[1]);
  // A gather of the norm's parameters separates the two.
  const Names names = forward_opcodes(residual_program(kSumAndNorm, 2, "fsdp"));
  EXPECT_EQ(std::ranges::count(names, "residual_norm"), 0);
  EXPECT_EQ(std::ranges::count(names, "layer_norm"), 1);
}

}  // namespace
}  // namespace hidup
