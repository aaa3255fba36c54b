// Conversions between float and the 16-bit formats, against the formats' definition.
#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hidup {
namespace {

// Returns the value of 16 bits by the definition: `exponent_bits` bits, then the fraction.
double meaning(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7FFF) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const int hidden = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(hidden + fraction, std::max(exponent, 1) - bias - fraction_bits);
}

template <typename T>
constexpr int kExponentBits = 0;
template <>
constexpr int kExponentBits<BFloat16> = 8;
template <>
constexpr int kExponentBits<Float16> = 5;

template <typename T>
class Half : public testing::Test {};
using Types = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Half, Types);

TYPED_TEST(Half, EveryNumberMeansWhatTheFormatSaysAndComesBack) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    TypeParam number;
    number.bits = static_cast<uint16_t>(bits);
    const double expected = meaning(number.bits, kExponentBits<TypeParam>);
    const float found = number;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(found)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(found), expected) << bits;
      ASSERT_EQ(TypeParam(found).bits, number.bits);
    }
  }
}

// A float rounds to the nearer neighbour, and to the even one from the middle.
TYPED_TEST(Half, RoundsToNearestEven) {
  constexpr int kFractionBits = 15 - kExponentBits<TypeParam>;
  constexpr uint16_t kInfinity = 0x7FFF >> kFractionBits << kFractionBits;
  for (uint16_t bits = 0; bits < kInfinity; ++bits) {
    const double low = meaning(bits, kExponentBits<TypeParam>);
    // The largest number rounds as if the next one existed.
    const double high =
        bits + 1 == kInfinity
            ? 2.0 * low - meaning(static_cast<uint16_t>(bits - 1), kExponentBits<TypeParam>)
            : meaning(static_cast<uint16_t>(bits + 1), kExponentBits<TypeParam>);
    const auto middle = static_cast<float>((low + high) / 2.0);
    if (static_cast<double>(middle) != (low + high) / 2.0) {
      continue;  // subnormal in float as well
    }
    const auto even = static_cast<uint16_t>(bits + bits % 2);
    ASSERT_EQ(TypeParam(middle).bits, even);
    ASSERT_EQ(TypeParam(-middle).bits, even | 0x8000);
    ASSERT_EQ(TypeParam(std::nextafter(middle, 0.0F)).bits, bits);
    ASSERT_EQ(TypeParam(std::nextafter(middle, std::numeric_limits<float>::infinity())).bits,
              bits + 1);
  }
}

TYPED_TEST(Half, FarNumbersBecomeInfinityOrZero) {
  constexpr float kMax = std::numeric_limits<float>::max();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  EXPECT_TRUE(std::isinf(static_cast<float>(TypeParam(kMax))));
  EXPECT_TRUE(std::isinf(static_cast<float>(TypeParam(-std::numeric_limits<float>::infinity()))));
  EXPECT_EQ(TypeParam(kTiny).bits, 0);
  EXPECT_EQ(TypeParam(-kTiny).bits, 0x8000);
  EXPECT_EQ(TypeParam(-0.0F).bits, 0x8000);
}

}  // namespace
}  // namespace hidup
