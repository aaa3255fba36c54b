#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sharding/rules.h"
#include "token_graph.h"
#include "verified_program.h"

namespace hidup {
namespace {

// Returns a graph of x [4, 6, 8] and the operations that read it.
Graph mlp_with(const std::string& operations) {
  return token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter w : f32[8, 10] = uniform(0.1)
parameter b : f32[10] = zeros
parameter v : f32[10, 8] = uniform(0.1)
parameter c : f32[8] = zeros
x = embedding(tokens, table)
)" + operations);
}

const std::string kMlp = R"(p = matmul(x, w)
y = bias(p, b)
h = gelu(y)
q = matmul(h, v)
z = bias(q, c)
loss = cross_entropy(z, targets)
)";

Program program_of(const std::string& operations, const std::string& strategy = "dp",
                   int64_t ranks = 1, int microbatches = 1, int64_t bucket_bytes = 1 << 20,
                   bool fuse = true) {
  const Graph graph = mlp_with(operations);
  Strategy chosen = named_strategy(strategy, graph, {{"ranks", ranks}});
  chosen.microbatches = microbatches;
  return verified_program(graph, chosen, fuse, bucket_bytes);
}

// Returns the opcodes of the backward pass, without messages and local copies.
Names backward_opcodes(const Program& program) {
  Names names;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::backward && !is_reshard(instruction.opcode)) {
      names.emplace_back(name_of(instruction.opcode));
    }
  }
  return names;
}

TEST(FuseBackward, GeluAndTheBiasesOfAnMlp) {
  const Program program = program_of(kMlp);
  EXPECT_EQ(
      backward_opcodes(program),
      (Names{"cross_entropy_backward", "matmul_backward_input_gelu", "matmul_backward_weight_bias",
             "matmul_backward_input", "matmul_backward_weight_bias", "embedding_backward"}));
  const Instruction& gelu = find_opcode(program, Opcode::matmul_backward_input_gelu);
  const Instruction& forward = find_opcode(program, Opcode::matmul_bias_gelu);
  ASSERT_EQ(gelu.inputs.size(), 3U);
  EXPECT_EQ(program.value(gelu.inputs[1]).name, "v");
  EXPECT_EQ(gelu.inputs[2], forward.outputs[1]);  // its input, not its output
  EXPECT_EQ(gelu.outputs,
            (std::vector<ValueId>{find_opcode(program, Opcode::matmul_backward_input).inputs[0]}));
  const Instruction& sums = find_opcode(program, Opcode::matmul_backward_weight_bias);
  ASSERT_EQ(sums.outputs.size(), 2U);
  EXPECT_EQ(program.value(program.value(sums.outputs[0]).gradient_of).name, "v");
  EXPECT_EQ(program.value(program.value(sums.outputs[1]).gradient_of).name, "c");
  EXPECT_EQ(backward_opcodes(program_of(kMlp, "dp", 1, 1, 1 << 20, false)),
            (Names{"cross_entropy_backward", "bias_backward", "matmul_backward_input",
                   "matmul_backward_weight", "gelu_backward", "bias_backward",
                   "matmul_backward_input", "matmul_backward_weight", "embedding_backward"}));
}

// Several microbatches add to the sums; each microbatch has its own products.
TEST(FuseBackward, EveryMicrobatchByItself) {
  const Program program = program_of(kMlp, "dp", 2, 2);
  std::vector<bool> accumulates;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::matmul_backward_weight_bias) {
      accumulates.push_back(instruction.accumulate);
    }
    EXPECT_NE(instruction.opcode, Opcode::bias_backward);
    EXPECT_NE(instruction.opcode, Opcode::gelu_backward);
  }
  EXPECT_EQ(std::ranges::count(accumulates, false), 2);
  EXPECT_EQ(std::ranges::count(accumulates, true), 2);
}

// The bias's gradient is sent before its product runs.
TEST(FuseBackward, NotABiasThatIsSentBefore) {
  const Names names = backward_opcodes(program_of(kMlp, "dp", 2, 1, 1));
  EXPECT_EQ(std::ranges::count(names, "bias_backward"), 2);
  EXPECT_EQ(std::ranges::count(names, "matmul_backward_input_gelu"), 1);
}

TEST(FuseBackward, PositionsAreNoBiasOfTheColumns) {
  const Graph graph = token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter w : f32[8, 10] = uniform(0.1)
parameter positions : f32[6, 10] = zeros
x = embedding(tokens, table)
p = matmul(x, w)
y = bias(p, positions)
loss = cross_entropy(y, targets)
)");
  EXPECT_EQ(backward_opcodes(verified_program(graph, named_strategy("dp", graph, {{"ranks", 1}}))),
            (Names{"cross_entropy_backward", "bias_backward", "matmul_backward_input",
                   "matmul_backward_weight", "embedding_backward"}));
}

// The gradient of h has two parts, and the product is only one.
TEST(FuseBackward, NotAGeluThatIsReadTwice) {
  const Names names = backward_opcodes(program_of(R"(p = matmul(x, w)
y = bias(p, b)
h = gelu(y)
q = matmul(h, v)
r = matmul(h, v)
s = add(q, r)
z = bias(s, c)
loss = cross_entropy(z, targets)
)"));
  EXPECT_EQ(std::ranges::count(names, "gelu_backward"), 1);
  EXPECT_EQ(std::ranges::count(names, "matmul_backward_input_gelu"), 0);
}

// GELU's input or its gradient is reduced over the ranks.
TEST(FuseBackward, NotAGeluWhoseGradientIsSummedBefore) {
  const Graph graph = mlp_with(kMlp);
  Strategy strategy = named_strategy("dp", graph, {{"ranks", 2}});
  const std::vector<std::string> rules = {"batch",  "batch",  "batch", "replicate",
                                          "column", "column", "batch"};
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].rules = {
        find_rule(graph, op, rules[static_cast<size_t>(op)])};
  }
  const Names names = backward_opcodes(verified_program(graph, strategy));
  EXPECT_EQ(std::ranges::count(names, "gelu_backward"), 1);
  EXPECT_EQ(std::ranges::count(names, "matmul_backward_input_gelu"), 0);
}

// Returns the program of x [4, 6, 8], whose gradient comes from the norm and from the sum after it.
Program norm_program(const std::string& operations, bool fuse = true) {
  const Graph graph = token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter w : f32[8, 8] = uniform(0.1)
parameter gamma : f32[8] = ones
parameter beta : f32[8] = zeros
x = embedding(tokens, table)
)" + operations + "loss = cross_entropy(s, targets)\n");
  return verified_program(graph, named_strategy("dp", graph, {{"ranks", 1}}), fuse);
}

TEST(FuseBackward, ANormAndTheSumWithTheResidualsGradient) {
  for (const bool centered : {true, false}) {
    const std::string name = centered ? "layer_norm" : "rms_norm";
    const std::string operations = "y = " + name + "(x, gamma" + (centered ? ", beta" : "") +
                                   ")\nf = matmul(y, w)\ns = add(x, f)\n";
    const Program program = norm_program(operations);
    EXPECT_EQ(backward_opcodes(program),
              (Names{"cross_entropy_backward", "matmul_backward_input", "matmul_backward_weight",
                     name + "_backward_add", "embedding_backward"}));
    const Instruction& norm = find_opcode(
        program, centered ? Opcode::layer_norm_backward_add : Opcode::rms_norm_backward_add);
    EXPECT_EQ(norm.inputs.back(), find_opcode(program, Opcode::cross_entropy_backward).outputs[0]);
    EXPECT_EQ(norm.outputs[0], find_opcode(program, Opcode::embedding_backward).inputs[1]);
    EXPECT_EQ(backward_opcodes(norm_program(operations, false)),
              (Names{"cross_entropy_backward", "matmul_backward_input", "matmul_backward_weight",
                     name + "_backward", "add", "embedding_backward"}));
  }
}

// The gradient has three parts: the norm's is added to one, and their sum to the third.
TEST(FuseBackward, ANormAndOneSumOnly) {
  const Names names = backward_opcodes(norm_program(R"(y = layer_norm(x, gamma, beta)
f = matmul(y, w)
g = matmul(x, w)
r = relu(g)
h = add(f, r)
s = add(x, h)
)"));
  EXPECT_EQ(std::ranges::count(names, "layer_norm_backward_add"), 1);
  EXPECT_EQ(std::ranges::count(names, "layer_norm_backward"), 0);
}

// Fusing saves no flops, but a read and a write of GELU's gradient, and a read of the gradient of
// each bias's output.
TEST(FuseBackward, SavesBytesAndNoFlops) {
  const auto total = [](bool fuse, double Instruction::*amount) {
    double sum = 0.0;
    for (const Instruction& i : program_of(kMlp, "dp", 1, 1, 1 << 20, fuse).instructions) {
      sum += i.phase == Phase::backward ? i.*amount : 0.0;
    }
    return sum;
  };
  EXPECT_EQ(total(true, &Instruction::flops), total(false, &Instruction::flops));
  EXPECT_EQ(total(false, &Instruction::bytes) - total(true, &Instruction::bytes),
            4.0 * 6.0 * 4.0 * (2.0 * 10.0 + 10.0 + 8.0));
}

TEST(FuseBackward, TakesNoMoreMemory) {
  const Graph graph = build_model(sample_deck(), 31);
  for (const std::string strategy : {"dp", "zero1", "fsdp", "megatron"}) {
    const Strategy chosen = named_strategy(strategy, graph, {{"ranks", 2}});
    EXPECT_LE(plan_memory(verified_program(graph, chosen, true, 2048), 0).bytes,
              plan_memory(verified_program(graph, chosen, false, 2048), 0).bytes);
  }
}

}  // namespace
}  // namespace hidup
