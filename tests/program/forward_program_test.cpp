// Programs of the forward pass alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "graph/text.h"
#include "program/print.h"
#include "verified_program.h"

namespace hidup {
namespace {

Program verified_forward(const Graph& graph, const Strategy& strategy,
                         const ForwardOptions& forward = {}) {
  Program program = lower_forward(graph, strategy, sample_options(2048), forward);
  for (int64_t rank = 0; rank < ranks_of(program.mesh); ++rank) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
  }
  return program;
}

// The dropout and the sum beside it read x, so the value that replaces the dropout's output must
// not be overwritten earlier.
constexpr const char* kGraph = R"(graph small
input tokens : i32[4, 6]
input targets : i32[4, 6]
parameter table : f32[8, 8] = uniform(0.1)
parameter bias : f32[8] = zeros
x = embedding(tokens, table)
dropped = dropout(x) {p=0.5}
biased = bias(dropped, bias)
y = relu(biased)
sum = add(x, y)
logits = matmul(sum, table) {transposed=1}
loss = cross_entropy(logits, targets)
)";

TEST(ForwardProgram, IsTheForwardPassWithoutDropout) {
  const Graph graph = parse_graph(kGraph, "small");
  const Strategy strategy = named_strategy("dp", graph, {{"ranks", 2}});
  EXPECT_EQ(print_program(verified_forward(graph, strategy, {.keep_logits = true})),
            R"(program small
mesh ranks=2

11 values
  table : f32[8, 8] R parameter
  bias : f32[8] R parameter
  tokens : i32[4, 6] S(0) input
  x : f32[4, 6, 8] S(0) activation
  biased : f32[4, 6, 8] S(0) activation
  logits : f32[4, 6, 8] S(0) activation
  targets : i32[4, 6] S(0) input
  loss : f32[2] R result
  loss.lse : f32[4, 6] S(0) activation
  logits.kept.all_gather : f32[4, 6, 8] R activation
  logits.kept : f32[4, 6, 8] R result

9 instructions
    0 compute forward   0 embedding x (tokens, table) -> (x) {scale=1}
    1 compute forward   0 bias biased (x, bias) -> (biased)
    2 compute forward   0 relu y (biased) -> (biased)
    3 compute forward   0 add sum (x, biased) -> (biased)
    4 compute forward   0 matmul logits (biased, table) -> (logits) {contract=1, transposed=1}
    5 compute forward   0 cross_entropy loss (logits, targets) -> (loss, loss.lse) {scale=0.041666666666666664}
    6 comm    forward  -1 all_reduce loss.all_reduce (loss) -> (loss) {axis=0} waits for 5
    7 comm    forward   0 all_gather logits.kept.all_gather (logits) -> (logits.kept.all_gather) {axis=0}
    8 compute forward   0 slice logits.kept (logits.kept.all_gather) -> (logits.kept) waits for 7
)");
}

TEST(ForwardProgram, BelongsToTheOperationsOfTheGraph) {
  const Graph graph = parse_graph(kGraph, "small");
  const Program program = verified_forward(graph, named_strategy("dp", graph, {{"ranks", 1}}));
  for (const Instruction& instruction : program.instructions) {
    EXPECT_EQ(graph.op_name(instruction.op), instruction.name);
  }
}

TEST(ForwardProgram, HasNothingOfABackwardPass) {
  const auto check = [](const Program& program) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, 1)));
    EXPECT_EQ(program.gradient_norm, -1);
    EXPECT_EQ(program.logits, -1);
    EXPECT_EQ(program.expert_loads.size(), 1U);
    for (const Value& value : program.values) {
      EXPECT_NE(value.role, Value::Role::gradient) << value.name;
      EXPECT_NE(value.role, Value::Role::optimizer_state) << value.name;
    }
    for (const Instruction& instruction : program.instructions) {
      EXPECT_EQ(instruction.phase, Phase::forward) << instruction.name;
      EXPECT_FALSE(instruction.opcode == Opcode::dropout) << instruction.name;
    }
    EXPECT_EQ(program.value(program.loss).layout, Layout{Placement::replicate()});
  };
  for_all_programs(3, check, false);
}

// A training's activations grow with the layers, those of a forward pass do not.
TEST(ForwardProgram, NeedsTheMemoryOfALayer) {
  const auto activations = [](int64_t layers, bool trains) {
    const Graph graph = build_model(sample_deck(layers), 31);
    const Strategy strategy = named_strategy("dp", graph, {{"ranks", 2}});
    const LoweringOptions options = sample_options(2048);
    return plan_memory(
               trains ? lower(graph, strategy, options) : lower_forward(graph, strategy, options),
               0)
        .activation_bytes;
  };
  EXPECT_EQ(activations(2, false), activations(8, false));
  EXPECT_LT(3 * activations(2, false), activations(2, true));
}

// The forward pass reads the training's parameters in place, and spares persistent values.
TEST(ForwardProgram, SharesTheValuesOfATraining) {
  const Graph graph = build_model(sample_deck(), 31);
  const Strategy strategy = named_strategy("fsdp", graph, {{"ranks", 2}});
  const Program training = lower(graph, strategy, sample_options(2048));
  const MemoryPlan plan = plan_memory(training, 1);
  const Program forward = verified_forward(graph, strategy);
  const MemoryPlan behind = plan_memory(forward, 1, stored_values(training, plan));
  EXPECT_NO_THROW(verify(forward, behind));
  const int64_t lasting = plan.bytes - plan.activation_bytes;
  for (size_t v = 0; v < forward.values.size(); ++v) {
    if (forward.values[v].role == Value::Role::parameter) {
      const auto same = std::ranges::find(training.values, forward.values[v].name, &Value::name);
      EXPECT_EQ(behind.offsets[v],
                plan.offsets[static_cast<size_t>(same - training.values.begin())]);
    } else if (behind.sizes[v] > 0) {
      EXPECT_GE(behind.offsets[v], lasting) << forward.values[v].name;
    }
  }
}

// Each wait is needed, and the verifier finds a value whose memory another one overwrites.
TEST(ForwardProgram, IsVerifiedAsClosely) {
  const Graph graph = build_model(sample_deck(), 31);
  int waits = 0;
  for (const char* name : {"dp", "fsdp", "megatron", "zero1"}) {
    Program program = verified_forward(graph, named_strategy(name, graph, {{"ranks", 2}}));
    MemoryPlan plan = plan_memory(program, 0);
    for (Instruction& instruction : program.instructions) {
      if (!instruction.waits.empty()) {
        ++waits;
        const std::vector<int> dropped = std::exchange(instruction.waits, {});
        EXPECT_THROW(verify(program, plan), Error) << name << " " << instruction.name;
        instruction.waits = dropped;
      }
    }
    const Instruction& norm = find_opcode(program, Opcode::residual_norm);
    plan.offsets[static_cast<size_t>(norm.outputs[0])] =
        plan.offsets[static_cast<size_t>(norm.inputs[0])];
    EXPECT_THROW(verify(program, plan), Error) << name;
    program.instructions.erase(program.instructions.begin());
    EXPECT_THROW(verify(program, plan_memory(program, 0)), Error) << name;
  }
  EXPECT_GT(waits, 10);
}

}  // namespace
}  // namespace hidup
