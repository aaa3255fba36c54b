#include "core/collective_algorithm.h"

#include <gtest/gtest.h>

namespace hidup {
namespace {

TEST(CollectiveAlgorithm, NamesAreRead) {
  for (int i = 0; i <= static_cast<int>(CollectiveAlgorithm::hierarchical); ++i) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(i);
    EXPECT_EQ(parse_collective_algorithm(name_of(algorithm)), algorithm);
  }
  EXPECT_EQ(name_of(CollectiveAlgorithm::hierarchical), "hierarchical");
  EXPECT_FALSE(parse_collective_algorithm("rings"));
}

}  // namespace
}  // namespace hidup
