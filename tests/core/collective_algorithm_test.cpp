#include "core/collective_algorithm.h"

#include <gtest/gtest.h>

namespace hidup {
namespace {

TEST(CollectiveAlgorithm, HasAName) {
  EXPECT_EQ(name_of(CollectiveAlgorithm::automatic), "automatic");
  EXPECT_EQ(name_of(CollectiveAlgorithm::tree), "tree");
  EXPECT_EQ(name_of(CollectiveAlgorithm::windows), "windows");
}

}  // namespace
}  // namespace hidup
