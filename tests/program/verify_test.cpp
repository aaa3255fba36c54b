// Mutated programs must be refused for the right reason.
#include "program/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/check.h"
#include "deck/model_deck.h"
#include "program/print.h"
#include "program/verify_operands.h"
#include "sample.h"

namespace hidup {
namespace {

void expect_refused(const Program& program, const MemoryPlan& plan, const std::string& reason) {
  try {
    verify(program, plan);
    ADD_FAILURE() << "accepted; expected: " << reason;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

// A program and its plan of memory. Mutations change the list, not the plan.
class Verify : public testing::Test {
 protected:
  Instruction& find(Opcode opcode, int nth = 0) {
    for (Instruction& instruction : program_.instructions) {
      if (instruction.opcode == opcode && nth-- == 0) {
        return instruction;
      }
    }
    throw std::logic_error("no such instruction");
  }
  size_t index(const Instruction& instruction) const {
    return static_cast<size_t>(&instruction - program_.instructions.data());
  }

  Program program_ = sample_program(2);
  MemoryPlan plan_ = plan_memory(program_, 0);
};

TEST_F(Verify, AcceptsEveryProgram) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    for (const int64_t bucket : {1, 5000, 1 << 20}) {
      const Program program = sample_program(ranks, bucket);
      EXPECT_NO_THROW(verify(program, plan_memory(program, ranks - 1)));
    }
  }
}

// Every single wait is needed: without it the list lacks a necessary order.
TEST_F(Verify, RefusesEveryDroppedWait) {
  int waits = 0;
  for (Instruction& instruction : program_.instructions) {
    if (!instruction.waits.empty()) {
      ++waits;
      const std::vector<int> dropped = std::exchange(instruction.waits, {});
      expect_refused(program_, plan_, "nothing orders");
      instruction.waits = dropped;
    }
  }
  EXPECT_GT(waits, 5);
}

TEST_F(Verify, RefusesAnEarlierWait) {
  Instruction& reduction = find(Opcode::all_reduce, 2);
  reduction.waits = {reduction.waits.at(0) - 1};
  while (program_.instructions[static_cast<size_t>(reduction.waits[0])].stream !=
         StreamKind::compute) {
    --reduction.waits[0];
  }
  expect_refused(program_, plan_, "nothing orders");
}

TEST_F(Verify, RefusesWaitsThatCannotEnd) {
  Instruction& reduction = find(Opcode::all_reduce, 1);
  reduction.waits = {static_cast<int>(index(reduction)) + 1};
  expect_refused(program_, plan_, "not before it");
  reduction.waits = {static_cast<int>(index(find(Opcode::all_reduce, 0)))};
  expect_refused(program_, plan_, "of its own stream");
}

TEST_F(Verify, RefusesACollectiveBeforeItsOperands) {
  const size_t at = index(find(Opcode::all_reduce, 1));
  auto reduction = program_.instructions.begin() + static_cast<int64_t>(at);
  // The reduction moves before the backward pass, where its gradients do not exist yet.
  const auto backward =
      std::ranges::find(program_.instructions, Phase::backward, &Instruction::phase);
  std::rotate(backward, reduction, reduction + 1);
  for (Instruction& instruction : program_.instructions) {
    instruction.waits.clear();
  }
  insert_waits(program_);
  expect_refused(program_, plan_, "before anything writes it");
}

TEST_F(Verify, RefusesSwappedInstructions) {
  // The first product and its reader are swapped.
  Instruction& product = find(Opcode::matmul_bias);
  std::swap(product, program_.instructions[index(product) + 1]);
  expect_refused(program_, plan_, "before anything writes it");
}

TEST_F(Verify, RefusesAMissingInstruction) {
  const auto norm = static_cast<int64_t>(index(find(Opcode::clip_scale)));
  program_.instructions.erase(program_.instructions.begin() + norm);
  expect_refused(program_, plan_, "before anything writes it");
}

TEST_F(Verify, RefusesOverlappingBuffers) {
  // Two activations live at the same time: the sum and its norm.
  const Instruction& norm = find(Opcode::residual_norm);
  plan_.offsets[static_cast<size_t>(norm.outputs[0])] =
      plan_.offsets[static_cast<size_t>(norm.inputs[0])];
  expect_refused(program_, plan_, "overlap in memory");
}

TEST_F(Verify, RefusesAnActivationOverAParameter) {
  const Instruction& norm = find(Opcode::residual_norm);
  plan_.offsets[static_cast<size_t>(norm.outputs[0])] =
      plan_.offsets[static_cast<size_t>(norm.inputs[2])];
  expect_refused(program_, plan_, "overlap in memory");
}

TEST_F(Verify, RefusesAValueOutsideTheArena) {
  plan_.bytes = 0;
  for (size_t v = 0; v < plan_.sizes.size(); ++v) {
    plan_.bytes = std::max(plan_.bytes, plan_.offsets[v] + plan_.sizes[v] - 1);
  }
  expect_refused(program_, plan_, "outside the arena");
}

TEST_F(Verify, RefusesAScatteredBucket) {
  Instruction& reduction = find(Opcode::all_reduce, 1);
  ASSERT_GT(reduction.inputs.size(), 1U);
  std::swap(reduction.inputs[0], reduction.inputs[1]);
  std::swap(reduction.outputs[0], reduction.outputs[1]);
  expect_refused(program_, plan_, "does not lie behind");
}

TEST_F(Verify, RefusesGradientsInPieces) {
  // The norm treats them as one piece of memory.
  Instruction& norm = find(Opcode::squared_norm);
  ASSERT_GT(norm.inputs.size(), 1U);
  std::swap(norm.inputs[0], norm.inputs[1]);
  expect_refused(program_, plan_, "does not lie behind");
}

TEST_F(Verify, RefusesToAddWhereNothingIsSummed) {
  find(Opcode::residual_norm).accumulate = true;
  expect_refused(program_, plan_, "cannot accumulate");
}

TEST_F(Verify, RefusesOtherAttributes) {
  find(Opcode::embedding).attributes = MatmulAttributes{};
  expect_refused(program_, plan_, "attributes of another kind");
}

TEST_F(Verify, RefusesToOverwriteAnInput) {
  Instruction& norm = find(Opcode::residual_norm);
  norm.outputs[0] = norm.inputs[0];
  EXPECT_THROW(verify_operands(program_, norm), Error);
}

// Returns a program with nearly all opcodes.
Program experts_program(DType dtype) {
  Deck deck = sample_deck(1);
  deck.model->moe = {.experts = 3, .every = 1, .router = "top2", .capacity_factor = 1.25};
  const Graph graph = with_precision(build_model(deck, 31), dtype);
  return lower(graph, named_strategy("fsdp", graph, {{"ranks", 2}}), sample_options(2048));
}

// An instruction of every kind gets one operand less, and one more.
TEST(VerifyOperands, RefusesAnyOtherNumber) {
  const Program program = experts_program(DType::bf16);
  std::set<Opcode> seen;
  for (const Instruction& instruction : program.instructions) {
    if (!seen.insert(instruction.opcode).second) {
      continue;
    }
    ASSERT_NO_THROW(verify_operands(program, instruction));
    const Opcode opcode = instruction.opcode;
    for (auto operands : {&Instruction::inputs, &Instruction::outputs}) {
      const bool any_number = is_reshard(opcode) || opcode == Opcode::convert ||
                              (opcode == Opcode::squared_norm && operands == &Instruction::inputs);
      const auto expect_refused = [&](size_t count) {
        Instruction other = instruction;
        (other.*operands).resize(count, (instruction.*operands)[0]);
        EXPECT_THROW(verify_operands(program, other), Error) << name_of(opcode) << " of " << count;
      };
      expect_refused(0);
      if (!any_number) {
        expect_refused((instruction.*operands).size() - 1);
        expect_refused((instruction.*operands).size() + 1);
      }
    }
  }
  EXPECT_GT(seen.size(), 30U);
}

// Returns the operands that have the instruction's element type.
std::set<ValueId> elements_of(const Instruction& instruction) {
  std::set<ValueId> found;
  const auto add = [&](const std::vector<ValueId>& values, const OperandList& operands) {
    for (size_t i = 0; i < values.size() && operands.takes(values.size()); ++i) {
      if (operands.at(i, values.size()).type == 'T') {
        found.insert(values[i]);
      }
    }
  };
  const Signature& signature = spec_of(instruction.opcode).signature;
  add(instruction.inputs, signature.inputs);
  add(instruction.outputs, signature.outputs);
  return found;
}

// Each operand in turn of an instruction of every kind gets another type.
TEST(VerifyTypes, RefusesAnyOtherType) {
  Program program = experts_program(DType::bf16);
  const MemoryPlan plan = plan_memory(program, 0);
  ASSERT_NO_THROW(verify(program, plan));
  std::set<Opcode> seen;
  for (const Instruction& instruction : program.instructions) {
    if (!seen.insert(instruction.opcode).second) {
      continue;
    }
    std::set<ValueId> operands(instruction.inputs.begin(), instruction.inputs.end());
    operands.insert(instruction.outputs.begin(), instruction.outputs.end());
    for (const ValueId operand : operands) {
      DType& dtype = program.values[static_cast<size_t>(operand)].dtype;
      const DType right = dtype;
      const auto expect_wrong = [&](DType wrong) {
        dtype = wrong;
        EXPECT_THROW(verify_operands(program, instruction), Error)
            << name_of(instruction.opcode) << " with " << program.value(operand).name << " as "
            << name_of(wrong);
        EXPECT_THROW(verify(program, plan), Error);
        dtype = right;
      };
      expect_wrong(right == DType::i32 ? DType::f32 : DType::i32);
      const auto has_other = [&](DType wanted) {
        return std::ranges::any_of(operands, [&](ValueId other) {
          return other != operand && program.value(other).dtype == wanted;
        });
      };
      // Changing all its floating operands would give another valid instruction.
      const bool is_element = elements_of(instruction) == std::set<ValueId>{operand};
      if (right == DType::f32 && operands.size() > 1 && !is_element) {
        expect_wrong(DType::bf16);
      } else if (right == DType::bf16 && has_other(DType::bf16)) {
        expect_wrong(DType::f32);
      }
    }
  }
  EXPECT_GT(seen.size(), 30U);
}

TEST_F(Verify, RefusesACollectiveOnTheComputeStream) {
  Instruction& reduction = find(Opcode::all_reduce, 1);
  reduction.stream = StreamKind::compute;
  reduction.waits.clear();
  expect_refused(program_, plan_, "wrong stream");
}

// Changes of layout. The program of megatron has a gather of the cross-entropy's numbers and sums
// in place; that of zero1 has slices of parameters.
class VerifyReshard : public testing::Test {
 protected:
  void use(const std::string& strategy) {
    const Graph graph = build_model(sample_deck(), 31);
    program_ = lower(graph, named_strategy(strategy, graph, {{"ranks", 2}}), sample_options(2048));
    plan_ = plan_memory(program_, 0);
    ASSERT_NO_THROW(verify(program_, plan_));
  }
  Instruction& find(Opcode opcode) {
    const auto found = std::ranges::find(program_.instructions, opcode, &Instruction::opcode);
    if (found == program_.instructions.end()) {
      throw std::logic_error("no such instruction");
    }
    return *found;
  }
  Value& output_of(Opcode opcode) {
    return program_.values[static_cast<size_t>(find(opcode).outputs[0])];
  }

  Program program_;
  MemoryPlan plan_;
};

TEST_F(VerifyReshard, RefusesAnotherOpcode) {
  use("megatron");
  find(Opcode::all_gather).opcode = Opcode::all_to_all;
  expect_refused(program_, plan_, "loss.stats.all_gather) takes loss.stats from S(0) to R");
}

TEST_F(VerifyReshard, RefusesAnotherPlacement) {
  const std::vector<std::pair<Opcode, const char*>> cases = {{Opcode::all_gather, "fsdp"},
                                                             {Opcode::reduce_scatter, "zero1"},
                                                             {Opcode::broadcast, "ps"},
                                                             {Opcode::slice, "zero1"}};
  for (const auto& [opcode, strategy] : cases) {
    use(strategy);
    output_of(opcode).layout = {Placement::partial()};
    expect_refused(program_, plan_, " to P");
  }
}

TEST_F(VerifyReshard, RefusesAStepThatChangesNothing) {
  use("fsdp");
  output_of(Opcode::all_gather).layout = program_.value(find(Opcode::all_gather).inputs[0]).layout;
  expect_refused(program_, plan_, " from S(0) to S(0)");
}

TEST_F(VerifyReshard, RefusesAnotherShape) {
  use("megatron");
  output_of(Opcode::all_gather).shape[1] += 1;
  expect_refused(program_, plan_, "changes the shape of loss.stats");
}

TEST_F(VerifyReshard, RefusesAnAxisThatTheMeshHasNot) {
  for (const Opcode opcode : {Opcode::all_gather, Opcode::all_reduce}) {
    for (const int axis : {-1, 1}) {
      use("megatron");
      find(opcode).axis = axis;
      expect_refused(program_, plan_, "works along no axis of the mesh");
    }
  }
}

// A slice without an axis is a copy.
TEST_F(VerifyReshard, RefusesACopyToAnotherLayout) {
  use("zero1");
  find(Opcode::slice).axis = -1;
  expect_refused(program_, plan_, " from R to S(0)");
}

TEST_F(VerifyReshard, RefusesAnInputWithoutAnOutput) {
  use("zero1");
  Instruction& slice = find(Opcode::slice);
  slice.inputs.push_back(slice.inputs[0]);
  expect_refused(program_, plan_, "has too few outputs");
}

TEST_F(Verify, RanksMustIssueTheSameCollectives) {
  Program other = program_;
  std::vector<std::string> all = {print_collectives(program_), print_collectives(other)};
  EXPECT_NO_THROW(verify_ranks_agree(all));

  std::swap(find(Opcode::all_reduce, 1), find(Opcode::all_reduce, 2));
  all[1] = print_collectives(program_);
  try {
    verify_ranks_agree(all);
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("collective 2 of rank 0 is all_reduce gradients.0"), std::string::npos)
        << message;
    EXPECT_NE(message.find("of rank 1 all_reduce gradients.1"), std::string::npos) << message;
  }

  other.instructions.erase(
      other.instructions.begin() +
      (std::ranges::find(other.instructions, Opcode::all_reduce, &Instruction::opcode) -
       other.instructions.begin()));
  all[1] = print_collectives(other);
  EXPECT_THROW(verify_ranks_agree(all), Error);
}

}  // namespace
}  // namespace hidup
