#include "core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace hidup {
namespace {

// Known answers of Random123 (kat_vectors, philox4x32-10).
TEST(Philox, KnownAnswers) {
  const Philox4 zeros = philox(0, 0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5U);
  EXPECT_EQ(zeros.word[1], 0xe169c58dU);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8U);
  const Philox4 ones = philox(~0ULL, ~0ULL, ~0ULL);
  EXPECT_EQ(ones.word[0], 0x408f276dU);
  EXPECT_EQ(ones.word[1], 0x41c83b0eU);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6U);
  EXPECT_EQ(ones.word[3], 0x6d5451fdU);
}

TEST(RandomStream, UniformIsUniform) {
  const RandomStream stream = random_stream(1, "test");
  constexpr int kCount = 100000;
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.uniform(static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5, 5.0 / std::sqrt(12.0 * kCount));
  EXPECT_NEAR(squares / kCount - mean * mean, 1.0 / 12.0, 2e-3);
}

// Numbers have the moments of the normal distribution, and neighbours, which share a block of
// words, are uncorrelated.
TEST(RandomStream, NormalIsNormal) {
  const RandomStream stream = random_stream(1, "test");
  constexpr int kCount = 100000;
  double moments[5] = {};
  double neighbours = 0.0;
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = stream.normal(static_cast<uint64_t>(i));
    for (int power = 1; power <= 4; ++power) {
      moments[power] += std::pow(z, power) / kCount;
    }
    neighbours += z * stream.normal(static_cast<uint64_t>(i) + 1) / kCount;
    beyond_two += std::abs(z) > 2.0 ? 1 : 0;
  }
  const double error = 5.0 / std::sqrt(kCount);  // five standard deviations of a mean
  EXPECT_NEAR(moments[1], 0.0, error);
  EXPECT_NEAR(moments[2], 1.0, error * std::sqrt(2.0));
  EXPECT_NEAR(moments[3], 0.0, error * std::sqrt(15.0));
  EXPECT_NEAR(moments[4], 3.0, error * std::sqrt(96.0));
  EXPECT_NEAR(neighbours, 0.0, error);
  EXPECT_NEAR(beyond_two / double{kCount}, 0.0455, error * 0.21);
}

TEST(RandomStream, SeedPurposeAndStepSeparate) {
  const std::set<uint32_t> words = {
      random_stream(1, "a", 1).word(0), random_stream(2, "a", 1).word(0),
      random_stream(1, "b", 1).word(0), random_stream(1, "a", 2).word(0),
      random_stream(1, "a", 1).word(1)};
  EXPECT_EQ(words.size(), 5U);
}

}  // namespace
}  // namespace hidup
