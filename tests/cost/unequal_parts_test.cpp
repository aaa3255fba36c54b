#include "cost/unequal_parts.h"

#include <gtest/gtest.h>

namespace hidup {
namespace {

TEST(UnequalParts, ArePaddedUpToTheBreakEven) {
  EXPECT_NEAR(padded_over_grouped(Opcode::all_gather), 1.035, 5e-4);
  EXPECT_NEAR(padded_over_grouped(Opcode::reduce_scatter), 1.112, 5e-4);
  EXPECT_EQ(faster_way(Opcode::all_gather, 1.034), UnequalParts::padded);
  EXPECT_EQ(faster_way(Opcode::all_gather, 1.036), UnequalParts::grouped);
  EXPECT_EQ(faster_way(Opcode::reduce_scatter, 1.112), UnequalParts::padded);
  EXPECT_EQ(faster_way(Opcode::reduce_scatter, 1.113), UnequalParts::grouped);
  EXPECT_EQ(faster_way(Opcode::all_reduce, 9.0), UnequalParts::padded);
}

TEST(UnequalParts, CountAsTheFasterWay) {
  EXPECT_EQ(bytes_in_equal_parts(Opcode::all_gather, 1000.0, 1000.0), 1000.0);
  EXPECT_EQ(bytes_in_equal_parts(Opcode::all_gather, 1030.0, 1000.0), 1030.0);
  EXPECT_NEAR(bytes_in_equal_parts(Opcode::all_gather, 4000.0, 1000.0), 1034.7, 0.1);
  EXPECT_EQ(bytes_in_equal_parts(Opcode::all_reduce, 4000.0, 1000.0), 4000.0);
  EXPECT_EQ(bytes_in_equal_parts(Opcode::all_gather, 0.0, 0.0), 0.0);
}

}  // namespace
}  // namespace hidup
