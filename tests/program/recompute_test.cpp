// Memory saving within a step: parameters gathered for each pass, recomputed activations, groups of
// microbatches; and the verifier's errors for wrong programs of this kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "deck/model_deck.h"
#include "program/access.h"
#include "program/print.h"
#include "sharding/memory_choices.h"
#include "verified_program.h"

namespace hidup {
namespace {

using testing::HasSubstr;

const Mesh kTwo = {{"ranks", 2}};

Graph gpt_model(int64_t layers, double dropout = 0.1) {
  Deck deck = sample_deck(layers);
  deck.model->family = "gpt";
  deck.model->dropout = dropout;
  return build_model(deck, 31);
}

Strategy fsdp_of(const Graph& graph, Residency residency, Recompute level = Recompute::none) {
  return with_recompute(graph, with_residency(named_strategy("fsdp", graph, kTwo), residency),
                        level);
}

int64_t activation_bytes(int64_t layers, Residency residency, Recompute level, int groups = 1) {
  const Graph graph = gpt_model(layers);
  Strategy strategy = fsdp_of(graph, residency, level);
  strategy.accumulate = groups;
  return plan_memory(verified_program(graph, strategy), 0).activation_bytes;
}

// Returns the instructions for which the condition holds, in the list's order.
std::vector<int> places(const Program& program, const std::function<bool(const Instruction&)>& is) {
  std::vector<int> found;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    if (is(program.instructions[static_cast<size_t>(i)])) {
      found.push_back(i);
    }
  }
  return found;
}

TEST(ReshardAfterForward, ParametersAreGatheredForEachPassThatReadsThem) {
  const Graph graph = gpt_model(2);
  const Program program = verified_program(graph, fsdp_of(graph, Residency::pass));
  std::map<std::string, int> forward;
  std::map<std::string, int> again;
  for (const Instruction& gather : program.instructions) {
    if (gather.opcode == Opcode::all_gather) {
      EXPECT_EQ(gather.recomputed, gather.phase == Phase::backward);
      ++(gather.recomputed ? again : forward)[program.value(gather.inputs[0]).name];
    }
  }
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      const bool read = tensor.name.starts_with("layers.") && tensor.name.ends_with("weight");
      EXPECT_EQ(forward[tensor.name], 1) << tensor.name;
      // The last norm's parameters are gathered anew, too; the head's table is still there.
      EXPECT_EQ(again[tensor.name], read || tensor.name == "norm.weight" ? 1 : 0) << tensor.name;
    }
  }
}

// A gather starts when the bucket before the one in use is finished: not earlier, whatever the
// timing, and not later than the first use of the bucket in use, so that it overlaps with it.
TEST(ReshardAfterForward, OneBucketComesWhileOneIsUsed) {
  const Graph graph = gpt_model(4);
  const Program program = verified_program(graph, fsdp_of(graph, Residency::pass));
  const Accesses accesses(program);
  const HappensBefore before(program);
  for (const bool again : {false, true}) {
    const std::vector<int> gathers = places(program, [&](const Instruction& i) {
      return i.opcode == Opcode::all_gather && i.recomputed == again;
    });
    ASSERT_GT(gathers.size(), 10);
    for (size_t g = 2; g < gathers.size(); ++g) {
      const auto uses = [&](size_t bucket) {
        const ValueId value = program.instructions[static_cast<size_t>(gathers[bucket])].outputs[0];
        return accesses[static_cast<size_t>(value)];
      };
      for (const Access& use : uses(g - 2)) {  // of the tied table the head's is later
        EXPECT_TRUE(before(use.instruction, gathers[g]) || use.instruction > gathers[g]);
      }
      EXPECT_FALSE(before(uses(g - 1)[1].instruction, gathers[g]));
      EXPECT_LT(gathers[g], uses(g - 1)[1].instruction);
    }
  }
}

// Memory grows with the layers by the activations of the forward pass, not by whole parameters and
// gradients.
TEST(ReshardAfterForward, WholeParametersAndGradientsTakeTheMemoryOfAFew) {
  const auto growth = [](Residency residency) {
    return activation_bytes(16, residency, Recompute::none) -
           activation_bytes(8, residency, Recompute::none);
  };
  const auto of_dp = [](int64_t layers) {
    const Graph graph = gpt_model(layers);
    return plan_memory(verified_program(graph, named_strategy("dp", graph, kTwo)), 0)
        .activation_bytes;
  };
  EXPECT_EQ(growth(Residency::pass), of_dp(16) - of_dp(8));
  EXPECT_GT(growth(Residency::step), growth(Residency::pass));
}

// Bytes that a block of this model leaves to the next one, on rank 0.
constexpr int64_t kBlockBytes = 3 * 7 * 12 * 4;

TEST(Recompute, OfBlocksKeepsWhatIsBetweenThem) {
  const auto growth = [](Recompute level, const char* name = "fsdp",
                         Residency residency = Residency::pass) {
    const auto bytes = [&](int64_t layers) {
      const Graph graph = gpt_model(layers);
      const Strategy strategy = with_residency(named_strategy(name, graph, kTwo), residency);
      return plan_memory(verified_program(graph, with_recompute(graph, strategy, level)), 0)
          .activation_bytes;
    };
    return bytes(16) - bytes(8);
  };
  const int64_t aligned = (kBlockBytes + kValueAlignment - 1) / kValueAlignment * kValueAlignment;
  EXPECT_EQ(growth(Recompute::block), 8 * aligned);
  // zero1 has whole parameters: only the sums of their gradients have the residency of a pass. They
  // are freed once they have been sent.
  EXPECT_LT(growth(Recompute::block, "zero1"), growth(Recompute::block, "zero1", Residency::step));
  EXPECT_LT(growth(Recompute::cheap), growth(Recompute::none));
  EXPECT_LT(growth(Recompute::block), growth(Recompute::cheap));
}

Names recomputed_opcodes(const Program& program, const std::string& name) {
  Names names;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.recomputed && instruction.name.starts_with(name) &&
        instruction.opcode != Opcode::all_gather) {
      names.emplace_back(name_of(instruction.opcode));
    }
  }
  return names;
}

TEST(Recompute, WritesInstructionsAsTheyWere) {
  const Graph graph = gpt_model(2);
  const Program program =
      verified_program(graph, fsdp_of(graph, Residency::step, Recompute::block), true, 2048);
  // Nobody reads the last product of a block and its successors again. The sum before the first
  // norm stays in memory, so of that instruction only the norm is recomputed. A bucket ends between
  // a product and its bias.
  EXPECT_EQ(recomputed_opcodes(program, "layers.1"),
            (Names{"layer_norm", "matmul_bias", "attention", "matmul", "bias", "residual_norm",
                   "matmul_bias_gelu"}));
}

TEST(Recompute, OfCheapOperationsIsOfTheLastSteps) {
  const Graph graph = gpt_model(2);
  const Program program =
      verified_program(graph, fsdp_of(graph, Residency::step, Recompute::cheap));
  EXPECT_EQ(recomputed_opcodes(program, "layers.1"), (Names{"gelu", "layer_norm", "layer_norm"}));
}

TEST(Recompute, SendsMessagesAgain) {
  const Graph graph = gpt_model(2);
  const Strategy strategy =
      with_recompute(graph, named_strategy("megatron-sp", graph, kTwo), Recompute::block);
  const Program program = verified_program(graph, strategy);
  const std::vector<int> sent = places(
      program, [](const Instruction& i) { return i.recomputed && i.stream == StreamKind::comm; });
  // Each block gathers in both halves again and scatters in the first.
  EXPECT_EQ(sent.size(), 2 * 3);
  for (const int i : sent) {
    EXPECT_EQ(program.instructions[static_cast<size_t>(i)].after_uses_of.size(), 1);
  }
}

TEST(Accumulate, ActivationsTakeTheMemoryOfAGroup) {
  const int64_t one = activation_bytes(8, Residency::step, Recompute::none, 1);
  const int64_t five = activation_bytes(8, Residency::step, Recompute::none, 5);
  EXPECT_LT(five, one);
  const Graph graph = gpt_model(2);
  for (const Residency residency : {Residency::step, Residency::pass}) {
    Strategy strategy = fsdp_of(graph, residency);
    strategy.accumulate = 5;
    const Program program = verified_program(graph, strategy);
    const auto count = [&](Opcode opcode, bool again) {
      return places(
                 program,
                 [&](const Instruction& i) { return i.opcode == opcode && i.recomputed == again; })
          .size();
    };
    const size_t parameters = strategy.parameters.size();
    EXPECT_EQ(count(Opcode::all_gather, false),
              parameters * (residency == Residency::pass ? 5 : 1));
    EXPECT_EQ(count(Opcode::all_gather, true), residency == Residency::pass ? 5 * (2 * 6 + 1) : 0);
    EXPECT_EQ(count(Opcode::attention, false), 2 * 5);
    const size_t sums = count(Opcode::reduce_scatter, false);
    strategy.accumulate = 1;
    const Program whole = verified_program(graph, strategy);
    EXPECT_EQ(sums, places(whole, [](const Instruction& i) {
                      return i.opcode == Opcode::reduce_scatter;
                    }).size());
  }
}

class Refused : public testing::Test {
 protected:
  // Returns the verifier's error after a change of the first such instruction, with recomputation.
  std::string refusal(const std::function<bool(const Instruction&)>& is,
                      const std::function<void(Program&, Instruction&)>& change) const {
    Program program =
        lower(graph_, fsdp_of(graph_, Residency::pass, Recompute::block), sample_options(2048));
    const std::vector<int> found = places(program, is);
    check(!found.empty(), "no such instruction");
    change(program, program.instructions[static_cast<size_t>(found[0])]);
    try {
      verify(program, plan_memory(program, 0));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static std::function<bool(const Instruction&)> again(Opcode opcode) {
    return [opcode](const Instruction& i) { return i.recomputed && i.opcode == opcode; };
  }

  const Graph graph_ = gpt_model(2);
};

TEST_F(Refused, WhatIsComputedAgainFromOtherValues) {
  EXPECT_THAT(refusal(again(Opcode::matmul_bias),
                      [](Program& program, Instruction& product) {
                        const ValueId wrong = find_opcode(program, Opcode::matmul_bias).inputs[0];
                        product.inputs[0] = wrong;
                      }),
              HasSubstr("is recomputed, and leaves something else in"));
}

TEST_F(Refused, WhatIsComputedAgainOtherwise) {
  EXPECT_THAT(refusal(again(Opcode::residual_norm),
                      [](Program&, Instruction& norm) { norm.purpose += "2"; }),
              HasSubstr("is recomputed, and leaves something else in"));
  EXPECT_THAT(refusal(again(Opcode::attention),
                      [](Program&, Instruction& attention) {
                        std::get<AttentionAttributes>(attention.attributes).causal = false;
                      }),
              HasSubstr("is recomputed, and leaves something else in"));
  EXPECT_THAT(refusal(again(Opcode::layer_norm),
                      [](Program&, Instruction& norm) {
                        std::get<LayerNormAttributes>(norm.attributes).epsilon *= 2.0;
                      }),
              HasSubstr("is recomputed, and leaves something else in"));
}

TEST_F(Refused, WhatIsDoneAgainOverTheForwardPass) {
  EXPECT_THAT(refusal(again(Opcode::attention),
                      [](Program& program, Instruction& attention) {
                        const ValueId old = attention.outputs[0];
                        const ValueId first = find_opcode(program, Opcode::attention).outputs[0];
                        for (Instruction& instruction : program.instructions) {
                          std::ranges::replace(instruction.inputs, old, first);
                          std::ranges::replace(instruction.outputs, old, first);
                        }
                      }),
              HasSubstr("of the forward pass"));
}

TEST_F(Refused, WhatIsDoneAgainInTheForwardPass) {
  EXPECT_THAT(refusal([](const Instruction& i) { return i.opcode == Opcode::attention; },
                      [](Program&, Instruction& attention) { attention.recomputed = true; }),
              HasSubstr("is recomputed outside of the backward pass"));
}

TEST_F(Refused, AGatherThatComesTooEarly) {
  const auto late = [](const Instruction& i) {
    return !i.after_uses_of.empty() && !i.waits.empty();
  };
  EXPECT_THAT(refusal(late, [](Program&, Instruction& gather) { gather.waits.clear(); }),
              HasSubstr("comes after uses of"));
}

}  // namespace
}  // namespace hidup
