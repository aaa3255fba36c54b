#include <gtest/gtest.h>

#include <algorithm>

#include "program/access.h"
#include "sample.h"

namespace hidup {
namespace {

// Returns true if no wait orders the instruction relative to some collective.
bool unordered(const Program& program, const HappensBefore& before, int i) {
  for (int c = 0; c < static_cast<int>(program.instructions.size()); ++c) {
    if (program.instructions[static_cast<size_t>(c)].stream == StreamKind::comm && !before(c, i) &&
        !before(i, c)) {
      return true;
    }
  }
  return false;
}

TEST(BesideMessages, IsWhatNoWaitOrders) {
  for_all_programs(3, [](const Program& program) {
    const HappensBefore before(program);
    for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
      const Instruction& instruction = program.instructions[static_cast<size_t>(i)];
      EXPECT_EQ(instruction.beside_messages,
                instruction.stream == StreamKind::compute && unordered(program, before, i))
          << program.name << " " << instruction.name;
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
