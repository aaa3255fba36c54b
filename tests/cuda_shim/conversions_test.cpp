#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace cuda_shim {
namespace {

// Returns the value of a number with `exponent_bits` and `mantissa_bits`, by the definition.
double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
  const unsigned exponent = bits >> mantissa_bits & ((1U << exponent_bits) - 1U);
  const double fraction = std::ldexp(bits & ((1U << mantissa_bits) - 1U), -mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
  return bits >> (exponent_bits + mantissa_bits) != 0 ? -magnitude : magnitude;
}

// Checks that convert() rounds a float to the nearer neighbour, and the middle to the even one.
template <typename Convert>
void expect_nearest_even(int exponent_bits, int mantissa_bits, unsigned infinity, Convert convert) {
  for (unsigned bits = 0; bits + 1 < infinity; ++bits) {
    const double low = value_of(bits, exponent_bits, mantissa_bits);
    const double high = value_of(bits + 1, exponent_bits, mantissa_bits);
    const auto middle = static_cast<float>((low + high) / 2.0);
    if (static_cast<double>(middle) != (low + high) / 2.0) {
      continue;  // among the smallest floats
    }
    const float below = std::nextafter(middle, 0.0F);
    const float above = std::nextafter(middle, std::numeric_limits<float>::infinity());
    ASSERT_EQ(convert(below), bits);
    ASSERT_EQ(convert(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(convert(above), bits + 1);
    ASSERT_EQ(convert(-above), bits + 1 + 0x8000U);
  }
}

TEST(Half, EveryNumberHasItsValueAndComesBack) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const __half half = {static_cast<uint16_t>(bits)};
    const float value = __half2float(half);
    if ((bits & 0x7C00U) == 0x7C00U) {
      EXPECT_EQ(std::isnan(value), (bits & 0x3FFU) != 0);
      EXPECT_EQ(std::isinf(value), (bits & 0x3FFU) == 0);
    } else {
      EXPECT_EQ(static_cast<double>(value), value_of(bits, 5, 10));
    }
    if (!std::isnan(value)) {
      EXPECT_EQ(__float2half(value).bits, bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  expect_nearest_even(5, 10, 0x7C00U, [](float x) { return __float2half(x).bits; });
  EXPECT_EQ(__float2half(65519.996F).bits, 0x7BFF);
  EXPECT_EQ(__float2half(65520.0F).bits, 0x7C00);
  EXPECT_EQ(__float2half(-1e30F).bits, 0xFC00);
  EXPECT_TRUE(std::isnan(__half2float(__float2half(std::nanf("")))));
}

TEST(Bfloat16, EveryNumberHasItsValueAndComesBack) {
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const __nv_bfloat16 number = {static_cast<uint16_t>(bits)};
    const float value = __bfloat162float(number);
    if ((bits & 0x7F80U) != 0x7F80U) {
      EXPECT_EQ(static_cast<double>(value), value_of(bits, 8, 7));
    }
    if (!std::isnan(value)) {
      EXPECT_EQ(__float2bfloat16(value).bits, bits);
    }
  }
}

TEST(Bfloat16, RoundsToNearestEven) {
  expect_nearest_even(8, 7, 0x7F80U, [](float x) { return __float2bfloat16(x).bits; });
  EXPECT_EQ(__float2bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(__float2bfloat16(-std::numeric_limits<float>::infinity()).bits, 0xFF80);
  EXPECT_TRUE(std::isnan(__bfloat162float(__float2bfloat16(std::nanf("")))));
}

}  // namespace
}  // namespace cuda_shim
