#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "program/access.h"
#include "sample.h"

namespace hidup {
namespace {

// Returns true if no wait orders the instruction relative to some collective of the rank.
bool unordered(const Program& program, const RankSteps& steps, const HappensBefore& before, int i) {
  for (int c = 0; c < static_cast<int>(program.instructions.size()); ++c) {
    if (communicates(program.instructions[static_cast<size_t>(c)].stream) &&
        steps.runs(static_cast<size_t>(c)) && !before(c, i) && !before(i, c)) {
      return true;
    }
  }
  return false;
}

TEST(BesideMessages, IsWhatNoWaitOrdersOnSomeRank) {
  for_all_programs(3, [](const Program& program) {
    std::vector<bool> beside(program.instructions.size(), false);
    for (int64_t rank = 0; rank < ranks_of(program.mesh); ++rank) {
      const RankSteps steps(program, rank);
      const HappensBefore before(program, steps);
      for (size_t i = 0; i < beside.size(); ++i) {
        const bool computes =
            steps.runs(i) && program.instructions[i].stream == StreamKind::compute;
        beside[i] =
            beside[i] || (computes && unordered(program, steps, before, static_cast<int>(i)));
      }
    }
    for (size_t i = 0; i < beside.size(); ++i) {
      EXPECT_EQ(program.instructions[i].beside_messages, beside[i])
          << program.name << " " << program.instructions[i].name;
    }
  });
}

// Ranks sum the loss, and later the gradients.
TEST(BesideMessages, OfDataParallelRanksComeInTheBackwardPass) {
  const Program program = sample_program(2);
  const auto count = [&](Phase phase, bool beside) {
    return std::ranges::count_if(program.instructions, [&](const Instruction& instruction) {
      return is_product(instruction.opcode) && instruction.phase == phase &&
             instruction.beside_messages == beside;
    });
  };
  EXPECT_EQ(count(Phase::forward, true), 0);
  EXPECT_GT(count(Phase::forward, false), 0);
  EXPECT_GT(count(Phase::backward, true), 0);
}

TEST(BesideMessages, OfOneRankAreNone) {
  EXPECT_TRUE(std::ranges::none_of(sample_program(1).instructions, &Instruction::beside_messages));
}

}  // namespace
}  // namespace hidup
