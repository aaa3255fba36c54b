#include "checkpoint/division.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "sample.h"

namespace hidup {
namespace {

const std::vector<StoredTensor> kOneLarge = {{"parameters/a", DType::f32, {4096, 2048}}};

TEST(Division, GivesEveryElementOneWriter) {
  const std::vector<StoredTensor> tensors = sample::tensors();
  std::mt19937 random(1);
  for (int round = 0; round < 8; ++round) {
    const auto boxes = sample::random_boxes(tensors, 1 + round % 6, random);
    const std::vector<Share> shares = divide(tensors, boxes);
    std::vector<std::vector<char>> writers;
    for (const StoredTensor& tensor : tensors) {
      writers.emplace_back(static_cast<size_t>(elements(tensor.shape)));
    }
    for (size_t rank = 0; rank < shares.size(); ++rank) {
      int64_t end = 0;
      for (const Part& part : shares[rank].parts) {
        EXPECT_GE(part.at, end);
        EXPECT_EQ(part.at % kPartAlignment, 0);
        end = part.at + part.count * size_of(tensors[part.tensor].dtype);
        for (int64_t k = part.first; k < part.first + part.count; ++k) {
          const int64_t global = boxes[rank][part.tensor].global_index(k);
          ++writers[part.tensor][static_cast<size_t>(global)];
        }
      }
      EXPECT_GE(shares[rank].bytes, end);
    }
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(std::ranges::count(writers[i], 1), elements(tensors[i].shape)) << tensors[i].name;
    }
  }
}

TEST(Division, CutsLargeReplicasAtBlocks) {
  const std::vector<Share> shares = divide(kOneLarge, sample::whole_boxes(kOneLarge, 3));
  for (const Share& share : shares) {
    ASSERT_EQ(share.parts.size(), 1U);
    EXPECT_EQ(share.parts[0].first % (1 << 18), 0);
    EXPECT_NEAR(static_cast<double>(share.bytes), 32e6 / 3 * 1.0486, 1.1e6);
  }
}

TEST(Division, GivesSmallReplicasToOneRankEach) {
  const std::vector<StoredTensor> tensors(30, {"parameters/a", DType::f32, {100}});
  for (const Share& share : divide(tensors, sample::whole_boxes(tensors, 3))) {
    EXPECT_EQ(share.parts.size(), 10U);
  }
}

TEST(Division, RefusesBoxesThatAreNotTheTensor) {
  const Region upper = sample::box_of({4096, 2048}, {0, 0}, {2000, 2048});
  const Region lower = sample::box_of({4096, 2048}, {2000, 0}, {2096, 2048});
  const Region outside = sample::box_of({4096, 2048}, {4000, 0}, {2096, 2048});
  const Region other = sample::whole({2048, 4096});
  EXPECT_NO_THROW(divide(kOneLarge, {{upper}, {lower}}));
  EXPECT_THROW(divide(kOneLarge, {{upper}, {upper}}), Error);
  EXPECT_THROW(divide(kOneLarge, {{upper}, {outside}}), Error);
  EXPECT_THROW(divide(kOneLarge, {{other}}), Error);
}

}  // namespace
}  // namespace hidup
