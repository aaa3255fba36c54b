#include "cost/unequal_parts.h"

#include <gtest/gtest.h>

#include "core/unequal_parts.h"

namespace hidup {
namespace {

TEST(UnequalParts, ArePaddedUpToTheBreakEven) {
  EXPECT_NEAR(padded_over_grouped(Opcode::all_gather), 1.035, 5e-4);
  EXPECT_NEAR(padded_over_grouped(Opcode::reduce_scatter), 1.112, 5e-4);
  EXPECT_TRUE(padding_is_faster(kPaddedGather, 1.034));
  EXPECT_FALSE(padding_is_faster(kPaddedGather, 1.036));
  EXPECT_TRUE(padding_is_faster(kPaddedScatter, 1.112));
  EXPECT_FALSE(padding_is_faster(kPaddedScatter, 1.113));
  EXPECT_TRUE(padding_is_faster(padded_over_grouped(Opcode::all_reduce), 9.0));
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
