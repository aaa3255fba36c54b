#include "program/work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sample.h"

namespace hidup {
namespace {

TEST(AlikeInstructions, DoTheSameWork) {
  for_all_programs(3, [](const Program& program) {
    for (const int64_t rank : {0, 2}) {
      const AlikeInstructions alike = alike_instructions(program, rank);
      ASSERT_EQ(alike.number.size(), program.instructions.size());
      EXPECT_LT(alike.first.size(), program.instructions.size());
      for (size_t i = 0; i < alike.number.size(); ++i) {
        const auto first =
            static_cast<size_t>(alike.first.at(static_cast<size_t>(alike.number[i])));
        const Instruction& a = program.instructions[i];
        const Instruction& b = program.instructions[first];
        const Work work_of_a = work_of(program, a, rank);
        const Work work_of_b = work_of(program, b, rank);
        EXPECT_EQ(a.opcode, b.opcode) << a.name;
        EXPECT_EQ(a.axis, b.axis) << a.name;
        EXPECT_EQ(work_of_a.flops, work_of_b.flops) << a.name;
        EXPECT_EQ(work_of_a.bytes, work_of_b.bytes) << a.name;
        EXPECT_EQ(work_of_a.sizes, work_of_b.sizes) << a.name;
      }
    }
  });
}

}  // namespace
}  // namespace hidup
