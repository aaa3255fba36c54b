#include "program/padded_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/check.h"
#include "deck/model_deck.h"
#include "graph/text.h"
#include "program/print.h"
#include "program/verify_operands.h"
#include "verified_program.h"

namespace hidup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Names padded_values(const Program& program) {
  Names names;
  for (const Value& value : program.values) {
    if (value.padded_rows) {
      names.push_back(value.name);
    }
  }
  return names;
}

Graph model(const std::string& family, int64_t vocab) {
  Deck deck = sample_deck(1);
  deck.model->family = family;
  return build_model(deck, vocab);
}

Program on_ranks(const Graph& graph, const std::string& strategy, int64_t ranks, bool fuse = true) {
  return verified_program(graph, named_strategy(strategy, graph, {{"ranks", ranks}}), fuse);
}

// Logits have padded rows, and their gradient overwrites them; BERT adds a bias.
TEST(PaddedRows, AreThoseOfLogitsAndTheirGradient) {
  for (const char* family : {"bert", "gpt", "llama"}) {
    for (const bool fuse : {true, false}) {
      const Graph graph = model(family, 523);
      const Program program = on_ranks(graph, "dp", 1, fuse);
      const ValueId logits = find_opcode(program, Opcode::cross_entropy).inputs[0];
      EXPECT_THAT(padded_values(program), ElementsAre(program.value(logits).name)) << family;
      EXPECT_EQ(find_opcode(program, Opcode::cross_entropy_backward).outputs[0], logits);
      EXPECT_EQ(program.row_stride(logits, 0), 576);
      EXPECT_EQ(program.local_bytes(logits, 0), 5 * 7 * 576 * 4);
      EXPECT_EQ(plan_memory(program, 0).sizes[static_cast<size_t>(logits)], 5 * 7 * 576 * 4);
      EXPECT_THAT(print_program(program),
                  HasSubstr("f32[5, 7, 523] R activation, rows padded to multiples of 64\n"));
    }
  }
}

// The gradient has a value of its own, because the logits are read again.
TEST(PaddedRows, AreThoseOfAGradientBesideTheLogits) {
  Program program = on_ranks(model("gpt", 523), "dp", 1);
  const auto is_backward = [](const Instruction& instruction) {
    return instruction.opcode == Opcode::cross_entropy_backward;
  };
  Instruction& backward = *std::ranges::find_if(program.instructions, is_backward);
  const ValueId logits = backward.inputs[0];
  const auto gradient = static_cast<ValueId>(program.values.size());
  program.values.push_back(program.value(logits));
  program.values.back().padded_rows = false;
  backward.outputs[0] = gradient;
  for (Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::backward && &instruction != &backward) {
      std::ranges::replace(instruction.inputs, logits, gradient);
    }
  }
  EXPECT_THROW(verify_operands(program, backward), Error);
  pad_rows(program);
  EXPECT_TRUE(program.value(gradient).padded_rows);
  EXPECT_NO_THROW(verify_operands(program, backward));
  // Any other reader keeps both dense.
  Instruction copy = backward;
  copy.opcode = Opcode::slice;
  copy.inputs = copy.outputs = {gradient};
  program.instructions.push_back(copy);
  pad_rows(program);
  EXPECT_THAT(padded_values(program), IsEmpty());
}

TEST(PaddedRows, AreLongAndOdd) {
  for (const int64_t vocab : {31, 256, 320, 1024}) {
    EXPECT_THAT(padded_values(on_ranks(model("bert", vocab), "dp", 1)), IsEmpty()) << vocab;
  }
  EXPECT_EQ(padded_values(on_ranks(model("bert", 257), "dp", 1)).size(), 1U);
  // Every rank has 256 classes, or 255.
  EXPECT_THAT(padded_values(on_ranks(model("bert", 767), "megatron", 3)), IsEmpty());
}

// A part of the classes has padded rows if its own length needs them.
TEST(PaddedRows, OfAVocabularyThatIsCut) {
  const Program program = on_ranks(model("gpt", 641), "megatron", 2);
  const ValueId logits = find_opcode(program, Opcode::cross_entropy_stats).inputs[0];
  ASSERT_TRUE(program.value(logits).padded_rows);
  EXPECT_EQ(program.local_shape(logits, 0), (Shape{5, 7, 321}));
  EXPECT_EQ(program.row_stride(logits, 0), 384);
  EXPECT_EQ(program.local_shape(logits, 1), (Shape{5, 7, 320}));
  EXPECT_EQ(program.row_stride(logits, 1), 320);
}

TEST(PaddedRows, AreNotWhatOthersRead) {
  const std::string head = R"(graph others
input tokens : i32[4, 6]
input targets : i32[4, 6]
parameter table : f32[9, 8] = uniform(0.1)
parameter w : f32[8, 300] = uniform(0.1)
parameter b : f32[300] = zeros
parameter positions : f32[6, 300] = zeros
x = embedding(tokens, table)
p = matmul(x, w)
)";
  const auto padded = [&](const std::string& operations, bool fuse) {
    return padded_values(on_ranks(parse_graph(head + operations, "others"), "dp", 1, fuse));
  };
  for (const bool fuse : {true, false}) {
    EXPECT_EQ(padded("y = bias(p, b)\nloss = cross_entropy(y, targets)\n", fuse).size(), 1U);
    EXPECT_THAT(padded("y = relu(p)\nloss = cross_entropy(y, targets)\n", fuse), IsEmpty());
    // A row of the added tensor has two dimensions.
    EXPECT_THAT(padded("y = bias(p, positions)\nloss = cross_entropy(y, targets)\n", fuse),
                IsEmpty());
  }
}

// Logits for a caller stay dense.
TEST(PaddedRows, AreNotLogitsThatAreKept) {
  const Graph graph = model("gpt", 523);
  const Strategy strategy = named_strategy("dp", graph, {{"ranks", 1}});
  EXPECT_EQ(padded_values(lower_forward(graph, strategy, sample_options(1))).size(), 1U);
  const Program kept = lower_forward(graph, strategy, sample_options(1), {.keep_logits = true});
  EXPECT_THAT(padded_values(kept), IsEmpty());
}

TEST(PaddedRows, AreRefusedElsewhere) {
  Program program = on_ranks(model("bert", 523), "dp", 1);
  for (const Instruction& instruction : program.instructions) {
    const std::vector<ValueId> paddable = paddable_operands(program, instruction);
    for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId id : *operands) {
        Value& value = program.values[static_cast<size_t>(id)];
        const bool before = std::exchange(value.padded_rows, true);
        if (std::ranges::find(paddable, id) == paddable.end()) {
          EXPECT_THROW(verify_operands(program, instruction), Error) << instruction.name;
        }
        value.padded_rows = before;
      }
    }
    EXPECT_NO_THROW(verify_operands(program, instruction));
  }
}

// Padding costs no work.
TEST(PaddedRows, TakeNoMoreTime) {
  const Graph graph = model("bert", 523);
  const Strategy strategy = named_strategy("dp", graph, {{"ranks", 1}});
  LoweringOptions options = sample_options(1);
  const Program padded = lower(graph, strategy, options);
  options.pad = false;
  const Program dense = lower(graph, strategy, options);
  ASSERT_EQ(padded.instructions.size(), dense.instructions.size());
  for (size_t i = 0; i < dense.instructions.size(); ++i) {
    EXPECT_EQ(padded.instructions[i].bytes, dense.instructions[i].bytes);
    EXPECT_EQ(padded.instructions[i].flops, dense.instructions[i].flops);
  }
  EXPECT_THAT(padded_values(dense), IsEmpty());
}

}  // namespace
}  // namespace hidup
