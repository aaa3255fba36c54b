#include "program/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "graph/text.h"
#include "program/print.h"
#include "token_graph.h"
#include "verified_program.h"

namespace hidup {
namespace {

// Returns a graph with two products with w.
Graph graph_of_a_shared_parameter() {
  return token_graph(R"(parameter table : f32[8, 8] = uniform(0.1)
parameter w : f32[8, 8] = uniform(0.1)
x = embedding(tokens, table)
y = matmul(x, w)
z = matmul(y, w)
loss = cross_entropy(z, targets)
)");
}

int64_t count(const Program& program, Opcode opcode) {
  return std::ranges::count(program.instructions, opcode, &Instruction::opcode);
}

TEST(Lower, OneRankDoesNotCommunicate) {
  const Program program = sample_program(1);
  EXPECT_EQ(count(program, Opcode::all_reduce), 0);
  EXPECT_EQ(print_collectives(program), "");
}

TEST(Lower, EveryGradientIsReducedOnceInBuckets) {
  const Program program = sample_program(2);
  std::map<ValueId, int> reduced;
  int buckets = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::all_reduce && instruction.phase == Phase::backward) {
      ++buckets;
      int64_t bytes = 0;
      for (const ValueId value : instruction.inputs) {
        ++reduced[value];
        bytes += program.local_bytes(value, 0);
      }
      EXPECT_EQ(instruction.bytes, static_cast<double>(bytes));
    }
  }
  EXPECT_GT(buckets, 3);
  for (size_t v = 0; v < program.values.size(); ++v) {
    EXPECT_EQ(reduced[static_cast<ValueId>(v)],
              program.values[v].role == Value::Role::gradient ? 1 : 0)
        << program.values[v].name;
  }
}

TEST(Lower, BucketsAreSentWhileTheBackwardPassGoesOn) {
  const Program program = sample_program(2);
  size_t first_reduction = program.instructions.size();
  size_t last_gradient = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.phase == Phase::backward) {
      if (instruction.opcode == Opcode::all_reduce) {
        first_reduction = std::min(first_reduction, i);
      } else {
        last_gradient = i;
      }
    }
  }
  EXPECT_LT(first_reduction, last_gradient);
}

TEST(Lower, EveryParameterIsUpdatedOnce) {
  const Program program = sample_program(3);
  std::map<ValueId, int> updated;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::adam) {
      for (const ValueId value : instruction.outputs) {
        ++updated[value];
      }
    }
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    const Value& value = program.values[v];
    const bool state =
        value.role == Value::Role::parameter || value.role == Value::Role::optimizer_state;
    EXPECT_EQ(updated[static_cast<ValueId>(v)], state ? 1 : 0) << value.name;
  }
}

// Parameters of 16 bits are updated with their masters in the masters' layout, and sent on where
// their own layout differs.
TEST(Lower, MastersAreUpdatedAndRoundedTogether) {
  const Graph graph = with_precision(build_model(sample_deck(1), 31), DType::bf16);
  for (const char* name : {"dp", "zero1", "fsdp"}) {
    const Program program =
        verified_program(graph, named_strategy(name, graph, {{"ranks", 2}}), true, 2048);
    std::map<std::string, int> written;
    for (const Instruction& instruction : program.instructions) {
      if (instruction.phase != Phase::update) {
        continue;
      }
      EXPECT_NE(instruction.opcode, Opcode::adam);
      EXPECT_NE(instruction.opcode, Opcode::convert);
      if (instruction.opcode == Opcode::adam_rounded) {
        ASSERT_EQ(instruction.outputs.size() % 4, 0U);
        for (size_t k = 3; k < instruction.outputs.size(); k += 4) {
          const Value& master = program.value(instruction.outputs[k - 3]);
          const Value& rounded = program.value(instruction.outputs[k]);
          EXPECT_EQ(rounded.dtype, DType::bf16);
          EXPECT_EQ(rounded.layout, master.layout);
          const bool there = std::string_view(name) != "zero1";
          EXPECT_EQ(rounded.role == Value::Role::parameter, there) << rounded.name;
          ++written[master.name];
        }
      }
    }
    size_t masters = 0;
    for (const Value& value : program.values) {
      if (value.master_of >= 0) {
        ++masters;
        EXPECT_EQ(written[value.name], 1) << value.name;
      }
    }
    EXPECT_GT(masters, 5U);
  }
}

// The rank's matrix products take 2mkn flops each forward, and twice as many backward.
TEST(Lower, FlopsAreThoseOfTheRanksPart) {
  const Graph graph = build_model(sample_deck(), 31);
  LoweringOptions options = sample_options(2048);
  options.fuse = false;  // leaves nothing but the products
  const Program program = lower(graph, named_strategy("dp", graph, {{"ranks", 2}}), options);
  double forward = 0.0;
  double backward = 0.0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::matmul) {
      forward += instruction.flops;
    } else if (instruction.opcode == Opcode::matmul_backward_input ||
               instruction.opcode == Opcode::matmul_backward_weight) {
      backward += instruction.flops;
    }
  }
  const double rows = 3 * 7;  // rank 0 has 3 of 5 sequences
  const double per_row = 2.0 * (2 * (12 * 36 + 12 * 12 + 2 * 12 * 20) + 12 * 31);
  EXPECT_DOUBLE_EQ(forward, rows * per_row);
  EXPECT_DOUBLE_EQ(backward, 2.0 * forward);
}

// The gradient of a parameter with two uses is written, then added to, and reduced after both.
TEST(Lower, SharedParametersAccumulate) {
  const Graph graph = graph_of_a_shared_parameter();
  const Program program =
      lower(graph, named_strategy("dp", graph, {{"ranks", 2}}), sample_options(1));
  std::vector<bool> accumulates;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::matmul_backward_weight) {
      accumulates.push_back(instruction.accumulate);
    }
    if (instruction.opcode == Opcode::all_reduce && instruction.phase == Phase::backward) {
      EXPECT_EQ(accumulates.size(), 2U) << "sent before it is complete";
    }
  }
  EXPECT_EQ(accumulates, (std::vector<bool>{false, true}));
}

// Lowers with the named rule for every operation and whole parameters.
Program lowered(const Graph& graph, const std::map<std::string, std::string>& rules) {
  Strategy strategy = named_strategy("dp", graph, {{"ranks", 2}});
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops[static_cast<size_t>(op)].rules = {
        find_rule(graph, op, rules.at(graph.op_name(op)))};
  }
  Program program = lower(graph, strategy, sample_options(1));
  for (const int64_t rank : {0, 1}) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
  }
  return program;
}

// Returns changes of layout ("all_gather x.all_gather") and additions of one phase, in order.
std::vector<std::string> reshards(const Program& program, Phase phase, const std::string& tensor) {
  std::vector<std::string> found;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == phase && instruction.name.starts_with(tensor) &&
        (is_reshard(instruction.opcode) || instruction.opcode == Opcode::add ||
         instruction.accumulate)) {
      found.emplace_back(name_of(instruction.opcode));
    }
  }
  return found;
}

using Opcodes = std::vector<std::string>;

// Two products read the whole of x, which is cut along the sequence.
TEST(Lower, AnActivationIsGatheredOnceAndItsGradientScatteredOnce) {
  const Graph graph = token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter v : f32[8, 10] = uniform(0.1)
parameter w : f32[8, 10] = uniform(0.1)
x = embedding(tokens, table)
a = matmul(x, v)
b = matmul(x, w)
y = add(a, b)
loss = cross_entropy(y, targets)
)");
  const Program program = lowered(graph, {{"x", "sequence"},
                                          {"a", "column"},
                                          {"b", "column"},
                                          {"y", "column"},
                                          {"loss", "vocabulary"}});
  EXPECT_EQ(reshards(program, Phase::forward, "x"), (Opcodes{"all_gather"}));
  // The second product adds to the first one's result, then both are summed over the ranks.
  EXPECT_EQ(reshards(program, Phase::backward, "a, input gradient"),
            (Opcodes{"matmul_backward_input"}));
  EXPECT_EQ(reshards(program, Phase::backward, "b, input gradient"), Opcodes{});
  EXPECT_EQ(reshards(program, Phase::backward, "x.gradient"), (Opcodes{"reduce_scatter"}));
}

// Contributions with one layout are added first, then each layout is changed once.
TEST(Lower, ContributionsAreSummedByLayout) {
  const Graph graph = token_graph(R"(parameter table : f32[9, 8] = uniform(0.1)
parameter g : f32[8] = ones
parameter h : f32[8] = zeros
parameter v : f32[8, 8] = uniform(0.1)
x = embedding(tokens, table)
a = layer_norm(x, g, h)
b = layer_norm(x, g, h)
c = matmul(x, v)
ab = add(a, b)
y = add(ab, c)
loss = cross_entropy(y, targets)
)");
  const Program program = lowered(graph, {{"x", "sequence"},
                                          {"a", "replicate"},
                                          {"b", "replicate"},
                                          {"c", "column"},
                                          {"ab", "replicate"},
                                          {"y", "replicate"},
                                          {"loss", "replicate"}});
  EXPECT_EQ(reshards(program, Phase::forward, "x"), (Opcodes{"all_gather"}));
  // The product's part is a sum over ranks; the norms' are whole, and added before they are cut.
  EXPECT_EQ(reshards(program, Phase::backward, "x.gradient"),
            (Opcodes{"reduce_scatter", "slice", "add"}));
  const Instruction& first = find_opcode(program, Opcode::layer_norm_backward);
  const Instruction& second = find_opcode(program, Opcode::layer_norm_backward_add);
  EXPECT_EQ(second.inputs.back(), first.outputs[0]);
}

// One rule leaves a summand of the gradient, the other some of its columns.
TEST(Lower, ASharedParameterUnderTwoRulesHasOneTotal) {
  const Graph graph = graph_of_a_shared_parameter();
  const Program program =
      lowered(graph, {{"x", "batch"}, {"y", "batch"}, {"z", "column"}, {"loss", "vocabulary"}});
  std::vector<Layout> totals;
  for (const Value& value : program.values) {
    if (value.role == Value::Role::gradient && value.name == "w.gradient") {
      totals.push_back(value.layout);
    }
  }
  EXPECT_EQ(totals, (std::vector<Layout>{{Placement::replicate()}}));
  // Its bucket comes first, after the batch's product: the columns become the total, and the sum of
  // the summands is added.
  EXPECT_EQ(reshards(program, Phase::backward, "gradients.0"),
            (Opcodes{"all_gather", "all_reduce", "add"}));
  const auto updates = [&](const Instruction& instruction) {
    return instruction.opcode == Opcode::adam &&
           std::ranges::any_of(instruction.outputs,
                               [&](ValueId v) { return program.value(v).name == "w"; });
  };
  EXPECT_EQ(std::ranges::count_if(program.instructions, updates), 1);
}

// No value may reuse the memory of values that the host reads after the step.
TEST(Lower, WhatTheHostReadsKeepsItsMemory) {
  for (const int64_t ranks : {1, 2}) {
    const Program program = sample_program(ranks);
    for (const ValueId value : {program.loss, program.gradient_norm}) {
      EXPECT_TRUE(program.value(value).persistent()) << program.value(value).name;
    }
  }
}

TEST(Lower, IsPure) {
  EXPECT_EQ(print_program(sample_program(2)), print_program(sample_program(2)));
}

// Data have no gradients, so none is computed for them.
TEST(Lower, ImagesHaveNoGradient) {
  const Graph graph = parse_graph(R"(graph small
input images : f32[4, 6, 8]
input targets : i32[4]
parameter weight : f32[8, 10] = uniform(0.1)
patches = matmul(images, weight)
y = first(patches)
loss = cross_entropy(y, targets)
)",
                                  "small");
  Strategy strategy = {
      .mesh = {{"ranks", 1}},
      .parameters = {{graph.find("weight"), {Placement::replicate()}, {Placement::replicate()}}}};
  for (OpId op = 0; op < 3; ++op) {
    strategy.ops.push_back({{replicate_rule(graph, op)}});
  }
  const Program program = lower(graph, strategy, {});
  EXPECT_EQ(count(program, Opcode::matmul_backward_weight), 1);
  EXPECT_EQ(count(program, Opcode::matmul_backward_input), 0);
  EXPECT_EQ(program.images.size(), 1U);
  EXPECT_TRUE(program.tokens.empty());
}

}  // namespace
}  // namespace hidup
