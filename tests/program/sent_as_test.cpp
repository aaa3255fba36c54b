// Sums of gradients that are sent in 16 bits: which instructions those are, what they count as, and
// that the verifier lets nothing else be sent so.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "core/check.h"
#include "program/memory.h"
#include "program/message_parts.h"
#include "program/print.h"
#include "program/verify.h"
#include "program/work.h"
#include "sample.h"

namespace hidup {
namespace {

const Mesh kTwoByTwo = {{"node", 2}, {"gpu", 2}};
const Mesh kShared = {{.name = "ranks", .size = 4, .shares = {{2, 1, 0, 1}}}};

LoweringOptions options_with(DType gradients_as) {
  LoweringOptions options = sample_options(2048);
  options.gradients_as = gradients_as;
  return options;
}

// Along several axes at once, where that is possible.
Route shortest_route(const RouteDemand& demand, const Mesh& mesh) {
  return std::ranges::min(reshard_routes(demand.value.layout, demand.to, mesh), {}, &Route::size);
}

Program program_of(const std::string& name, const Mesh& mesh, DType gradients_as,
                   DType precision = DType::f32) {
  const Graph graph = with_precision(build_model(sample_deck(), 31), precision);
  Strategy strategy = named_strategy(name, graph, mesh);
  strategy.microbatches = 2;
  return lower(graph, strategy, options_with(gradients_as), [&](const RouteDemand& demand) {
    return shortest_route(demand, with_equal_shares(mesh));
  });
}

bool sums_gradients(const Instruction& instruction) {
  return (instruction.opcode == Opcode::all_reduce ||
          instruction.opcode == Opcode::reduce_scatter) &&
         instruction.phase == Phase::backward && instruction.bucket >= 0 && !instruction.recomputed;
}

// Calls use() with the programs that send in f32 and in 16 bits.
void for_all_pairs(const std::function<void(const Program& wide, const Program& narrow)>& use) {
  for (const Mesh& mesh : {Mesh{{"ranks", 3}}, kTwoByTwo}) {
    for (const NamedStrategy& named : named_strategies()) {
      for (const DType precision : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(named.name);
        use(program_of(std::string(named.name), mesh, DType::f32, precision),
            program_of(std::string(named.name), mesh, DType::bf16, precision));
      }
    }
  }
}

TEST(SentAs, SumsOfGradientsOnlyAreHalfAsLong) {
  int sums = 0;
  int hierarchical = 0;
  int others = 0;
  for_all_pairs([&](const Program& wide, const Program& narrow) {
    ASSERT_EQ(wide.instructions.size(), narrow.instructions.size());
    for (size_t i = 0; i < wide.instructions.size(); ++i) {
      const Instruction& before = wide.instructions[i];
      const Instruction& after = narrow.instructions[i];
      const bool rounds = sums_gradients(before);
      ASSERT_EQ(before.name, after.name);
      EXPECT_FALSE(before.sent_as) << before.name;
      EXPECT_EQ(after.sent_as, rounds ? std::optional(DType::bf16) : std::nullopt) << after.name;
      const double part = rounds ? 0.5 : 1.0;
      EXPECT_EQ(after.bytes, part * before.bytes) << after.name;
      EXPECT_EQ(work_of(narrow, after, 1).bytes, part * work_of(wide, before, 1).bytes);
      if (!collective_of(before.opcode).empty()) {
        EXPECT_EQ(paced_bytes(narrow, after, 1), part * paced_bytes(wide, before, 1));
      }
      sums += rounds ? 1 : 0;
      hierarchical += rounds && is_hierarchical(after) ? 1 : 0;
      others += !rounds && (before.opcode == Opcode::all_reduce || before.bucket >= 0) ? 1 : 0;
    }
  });
  EXPECT_GT(sums, 100);
  EXPECT_GT(hierarchical, 10);
  EXPECT_GT(others, 100);
}

TEST(SentAs, StandsInTheText) {
  const Program narrow = program_of("dp", kTwoByTwo, DType::bf16);
  const std::string text = print_program(narrow);
  EXPECT_NE(text.find("axis=0, inside=1, sent=bf16}"), std::string::npos) << text;
  EXPECT_NE(print_collectives(narrow).find(" as bf16\n"), std::string::npos);
  const Program wide = program_of("dp", kTwoByTwo, DType::f32);
  EXPECT_EQ(print_program(wide).find("sent="), std::string::npos);
  EXPECT_EQ(print_program(wide).find(".rounded"), std::string::npos);
  EXPECT_NE(print_collectives(wide), print_collectives(narrow));
}

TEST(SentAs, OneRankRoundsNothing) {
  for (const Mesh& mesh : {Mesh{{"ranks", 1}}, Mesh{{"node", 1}, {"gpu", 1}}}) {
    EXPECT_EQ(print_program(program_of("dp", mesh, DType::bf16)),
              print_program(program_of("dp", mesh, DType::f32)));
  }
}

// Each sum checks its room for received elements when it runs (runtime/rounded_sums.cpp).
TEST(SentAs, TheBufferHasRoomForWhatComes) {
  for_all_pairs([](const Program&, const Program& narrow) {
    for (const Instruction& instruction : narrow.instructions) {
      if (!instruction.sent_as) {
        continue;
      }
      const Value& buffer = narrow.value(instruction.outputs.back());
      for (int64_t rank = 0; rank < ranks_of(narrow.mesh); ++rank) {
        const SummedElements room = narrow.summed_elements(buffer, rank);
        int64_t sent = 0;
        for (const ValueId id : instruction.inputs) {
          sent += elements(narrow.local_shape(id, rank));
        }
        EXPECT_GE(room.rounded, sent);
        EXPECT_EQ(narrow.local_bytes(instruction.outputs.back(), rank),
                  2 * (room.rounded + room.received));
      }
    }
  });
}

TEST(SentAs, OfAGroupOfRanksByTheirNumber) {
  const Program program = program_of("dp", kShared, DType::bf16);
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_NO_THROW(verify(program, plan_memory(program, rank)));
  }
}

TEST(SentAs, TheVerifierWantsASumOfGradientsAndItsBuffer) {
  const Program program = program_of("fsdp", kTwoByTwo, DType::bf16);
  ASSERT_NO_THROW(verify(program, plan_memory(program, 0)));
  const auto is_refused = [&](const std::string& reason,
                              const std::function<void(Program&, Instruction&)>& change,
                              const std::function<bool(const Instruction&)>& of) {
    Program mutant = program;
    const auto found = std::ranges::find_if(mutant.instructions, of);
    ASSERT_NE(found, mutant.instructions.end()) << reason;
    change(mutant, *found);
    try {
      verify(mutant, plan_memory(mutant, 0));
      ADD_FAILURE() << "is not refused: " << reason;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  const auto rounds = [](const Instruction& each) { return each.sent_as.has_value(); };
  const auto gathers = [](const Instruction& each) { return each.opcode == Opcode::all_gather; };
  is_refused(
      "is no sum of gradients", [](Program&, Instruction& each) { each.sent_as = DType::bf16; },
      gathers);
  is_refused(
      "is no sum of gradients", [](Program&, Instruction& each) { each.bucket = -1; }, rounds);
  is_refused(
      "cannot be sent as f32", [](Program&, Instruction& each) { each.sent_as = DType::f32; },
      rounds);
  is_refused(
      "has no buffer for what it rounds",
      [](Program&, Instruction& each) { each.sent_as = DType::f16; }, rounds);
  is_refused(
      "has no buffer for what it rounds",
      [](Program&, Instruction& each) { each.outputs.pop_back(); }, rounds);
  is_refused(
      "has no buffer for what it rounds",
      [](Program& mutant, Instruction& each) {
        mutant.values[static_cast<size_t>(each.outputs.back())].holds.pop_back();
      },
      rounds);
  is_refused(
      "has a buffer for rounded sums", [](Program&, Instruction& each) { each.sent_as.reset(); },
      rounds);
}

}  // namespace
}  // namespace hidup
