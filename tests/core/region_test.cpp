#include "core/region.h"

#include <gtest/gtest.h>

#include <vector>

namespace hidup {
namespace {

// Returns rows 1..2 and columns 2..4 of a [3, 2, 5] tensor.
Region box() {
  return {.dims = 3, .start = {1, 0, 2}, .extent = {2, 2, 3}, .global = {3, 2, 5}};
}

TEST(Region, GlobalIndexIsRowMajorInTheGlobalTensor) {
  const Region region = box();
  std::vector<int64_t> expected;
  for (int64_t i = 1; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t k = 2; k < 5; ++k) {
        expected.push_back((i * 2 + j) * 5 + k);
      }
    }
  }
  ASSERT_EQ(region.elements(), static_cast<int64_t>(expected.size()));
  for (int64_t local = 0; local < region.elements(); ++local) {
    EXPECT_EQ(region.global_index(local), expected[static_cast<size_t>(local)]);
  }
}

TEST(Region, RunsAreContiguous) {
  EXPECT_EQ(box().contiguous_run(), 3);
  Region rows = box();
  rows.start[2] = 0;
  rows.extent[2] = 5;
  EXPECT_EQ(rows.contiguous_run(), 20);  // whole inner dimensions: one run per cut outer one
  for (int64_t local = 0; local < rows.elements(); ++local) {
    EXPECT_EQ(rows.global_index(local), rows.global_index(0) + local);
  }
  const Region scalar;
  EXPECT_EQ(scalar.elements(), 1);
  EXPECT_EQ(scalar.contiguous_run(), 1);
}

TEST(Region, MayBeEmpty) {
  Region region = box();
  region.extent[0] = 0;
  EXPECT_EQ(region.elements(), 0);
}

}  // namespace
}  // namespace hidup
