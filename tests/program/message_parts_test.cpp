#include "program/message_parts.h"

#include <gtest/gtest.h>

#include <utility>

#include "program/print.h"
#include "verified_program.h"

namespace hidup {
namespace {

const Mesh kThreeAxes = {{"pod", 2}, {"node", 4}, {"gpu", 8}};

std::string parts_text(Opcode opcode, int axis, std::vector<int> inner_axes, double bytes,
                       bool flat = false, std::optional<DType> sent_as = {}) {
  std::string text;
  const Instruction instruction{.opcode = opcode,
                                .axis = axis,
                                .inner_axes = std::move(inner_axes),
                                .flat = flat,
                                .sent_as = sent_as};
  for (const MessagePart& part : message_parts(kThreeAxes, instruction, bytes)) {
    text += std::string(name_of(part.opcode)) + " " + kThreeAxes[part.axis].name + " " +
            (part.times == 1.0 ? "" : std::to_string(static_cast<int64_t>(part.times)) + " x ") +
            std::to_string(static_cast<int64_t>(part.bytes)) + "; ";
  }
  return text;
}

TEST(MessageParts, OfACollectiveAlongOneAxisAreItself) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 1, {}, 640), "all_reduce node 640; ");
  EXPECT_EQ(parts_text(Opcode::all_to_all, 2, {}, 640), "all_to_all gpu 640; ");
}

TEST(MessageParts, OutsideGoesWhatIsDifferentInside) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 1, {2}, 640),
            "reduce_scatter gpu 640; all_reduce node 80; all_gather gpu 640; ");
  EXPECT_EQ(parts_text(Opcode::reduce_scatter, 1, {2}, 640),
            "reduce_scatter gpu 640; reduce_scatter node 80; ");
  EXPECT_EQ(parts_text(Opcode::all_gather, 1, {2}, 640),
            "all_gather node 80; all_gather gpu 640; ");
}

TEST(MessageParts, OnThreeAxes) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 0, {1, 2}, 640),
            "reduce_scatter gpu 640; reduce_scatter node 80; all_reduce pod 20; "
            "all_gather node 80; all_gather gpu 640; ");
  EXPECT_EQ(parts_text(Opcode::all_reduce, 0, {2}, 640),
            "reduce_scatter gpu 640; all_reduce pod 80; all_gather gpu 640; ");
}

TEST(MessageParts, OfRoundedSumsAreAllToAllsAndGathers) {
  const auto rounded = [](Opcode opcode, int axis, std::vector<int> inner_axes) {
    return parts_text(opcode, axis, std::move(inner_axes), 640, false, DType::bf16);
  };
  EXPECT_EQ(rounded(Opcode::reduce_scatter, 1, {}), "all_to_all node 640; ");
  EXPECT_EQ(rounded(Opcode::all_reduce, 1, {}), "all_to_all node 640; all_gather node 640; ");
  EXPECT_EQ(rounded(Opcode::reduce_scatter, 1, {2}), "all_to_all gpu 640; all_to_all node 80; ");
  EXPECT_EQ(rounded(Opcode::all_reduce, 0, {1, 2}),
            "all_to_all gpu 640; all_to_all node 80; all_to_all pod 20; "
            "all_gather pod 20; all_gather node 80; all_gather gpu 640; ");
}

// In a ring of 32 ranks each sends 31/32 of the bytes, of 8 ranks 7/8, of 4 ranks 3/4; 8 ranks
// divide the bytes along node.
TEST(MessageParts, OfFlatSumsAndGathersAreRingsAtOnce) {
  EXPECT_EQ(parts_text(Opcode::all_reduce, 1, {2}, 672, true),
            "all_reduce node 108; all_reduce gpu 744; ");
  EXPECT_EQ(parts_text(Opcode::all_gather, 1, {2}, 672, true),
            "all_gather node 108; all_gather gpu 744; ");
  const Instruction flat{.opcode = Opcode::all_reduce, .axis = 1, .inner_axes = {2}, .flat = true};
  Instruction other = flat;
  EXPECT_TRUE(run_at_once(flat));
  other.flat = false;
  EXPECT_FALSE(run_at_once(other));
  other = flat;
  other.opcode = Opcode::all_to_all;
  EXPECT_FALSE(run_at_once(other));
}

TEST(MessageParts, OfAllToAllsAlongSeveralAxes) {
  EXPECT_EQ(parts_text(Opcode::all_to_all, 1, {2}, 640),
            "all_to_all gpu 640; all_to_all node 640; ");
  EXPECT_EQ(parts_text(Opcode::all_to_all, 1, {2}, 640, true),
            "all_to_all node 8 x 80; all_to_all gpu 160; ");
  EXPECT_EQ(parts_text(Opcode::all_to_all, 0, {1, 2}, 640),
            "all_to_all node 8 x 80; all_to_all gpu 160; all_to_all pod 640; ");
  EXPECT_EQ(parts_text(Opcode::all_to_all, 0, {1, 2}, 640, true),
            "all_to_all pod 32 x 20; all_to_all node 8 x 40; all_to_all gpu 80; ");
}

// Values 0 and 1 are a tensor of 100 floats and its part by the placement.
double paced(Opcode opcode, int64_t ranks, Placement placement, int64_t rank) {
  const Program program{
      .mesh = {{"ranks", ranks}},
      .values = {{.shape = {100},
                  .layout = {opcode == Opcode::reduce_scatter ? Placement::partial()
                                                              : Placement::replicate()}},
                 {.shape = {100}, .layout = {placement}}}};
  const bool gathers = opcode == Opcode::all_gather;
  return paced_bytes(
      program,
      {.opcode = opcode, .axis = 0, .inputs = {gathers ? 1 : 0}, .outputs = {gathers ? 0 : 1}},
      rank);
}

TEST(PacedBytes, OfEqualPartsAreThoseOfTheWhole) {
  for (const Opcode opcode : {Opcode::all_gather, Opcode::reduce_scatter}) {
    EXPECT_EQ(paced(opcode, 4, Placement::shard(0), 0), 400.0);
    EXPECT_EQ(paced(opcode, 4, Placement::shard(0), 3), 400.0);
  }
}

// The largest part passes through one link, while equal parts pass through one each.
TEST(PacedBytes, OfUnequalPartsAreThoseOfTheLargest) {
  for (const Opcode opcode : {Opcode::all_gather, Opcode::reduce_scatter}) {
    EXPECT_EQ(paced(opcode, 2, Placement::on_first_rank(), 0), 800.0);
    EXPECT_EQ(paced(opcode, 3, Placement::shard(0), 0), 408.0);  // 34 of 100
  }
}

TEST(Algorithms, AreThoseOfThePartsSizes) {
  using enum CollectiveAlgorithm;
  const std::vector<AlgorithmChoice> choices = {{ReshardKind::all_reduce, 1, 81.0, ring},
                                                {ReshardKind::all_reduce, 1, 0.0, tree},
                                                {ReshardKind::all_gather, 2, 500.0, windows}};
  const auto by = [&](std::vector<int> inner, double bytes) {
    return names_of(algorithms_by(
        choices, kThreeAxes,
        {.opcode = Opcode::all_reduce, .axis = 1, .inner_axes = std::move(inner)}, bytes));
  };
  EXPECT_EQ(by({}, 80.0), "tree");
  EXPECT_EQ(by({}, 81.0), "ring");
  EXPECT_EQ(by({2}, 640.0), "automatic tree windows");
  EXPECT_EQ(by({2}, 648.0), "automatic ring windows");
  EXPECT_EQ(names_of(algorithms_by(choices, kThreeAxes, {.opcode = Opcode::all_to_all, .axis = 1},
                                   640.0)),
            "");
}

TEST(Algorithms, StandInTheProgramAndAreVerified) {
  const Graph graph = build_model(sample_deck(), 31);
  Strategy strategy = named_strategy("dp", graph, {{"ranks", 2}});
  strategy.algorithms = {{ReshardKind::all_reduce, 0, 1000.0, CollectiveAlgorithm::windows}};
  const Program program = verified_program(graph, strategy, true, 2048);
  int large = 0;
  int small = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.opcode == Opcode::all_reduce) {
      const bool by = paced_bytes(program, instruction, 0) >= 1000.0;
      EXPECT_EQ(names_of(instruction.algorithms), by ? "windows" : "");
      ++(by ? large : small);
    } else {
      EXPECT_TRUE(instruction.algorithms.empty());
    }
  }
  EXPECT_GT(large, 3);
  EXPECT_GT(small, 0);
  EXPECT_NE(print_program(program).find(", by=windows}"), std::string::npos);
  const auto is_refused = [&](std::vector<CollectiveAlgorithm> algorithms, Opcode opcode) {
    Program mutant = program;
    std::ranges::find(mutant.instructions, opcode, &Instruction::opcode)->algorithms =
        std::move(algorithms);
    EXPECT_THROW(verify(mutant, plan_memory(mutant, 0)), Error);
  };
  is_refused({CollectiveAlgorithm::bruck}, Opcode::all_reduce);
  is_refused({CollectiveAlgorithm::ring, CollectiveAlgorithm::ring}, Opcode::all_reduce);
}

}  // namespace
}  // namespace hidup
