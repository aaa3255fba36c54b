// 16-bit floating-point types for storage; arithmetic is in float. Conversions from float round to
// nearest, ties to even, and keep NaN. They have no branches, so that loops of them vectorize.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace hidup {

namespace half_bits {

HIDUP_HOST_DEVICE constexpr uint32_t bits_of(float value) {
  return __builtin_bit_cast(uint32_t, value);
}
HIDUP_HOST_DEVICE constexpr float float_of(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

HIDUP_HOST_DEVICE constexpr uint16_t to_bfloat16(float value) {
  const uint32_t bits = bits_of(value);
  const uint32_t rounded = bits + 0x7FFFU + (bits >> 16 & 1U);  // this could turn NaN into infinity
  return static_cast<uint16_t>((value != value ? bits | 0x400000U : rounded) >> 16);
}

HIDUP_HOST_DEVICE constexpr float from_bfloat16(uint16_t bits) {
  return float_of(static_cast<uint32_t>(bits) << 16);
}

// Follows F. Giesen, "Float to half, done quick": adding 0.5 rounds a subnormal result and leaves
// its bits at the end of the sum's.
HIDUP_HOST_DEVICE constexpr uint16_t to_float16(float value) {
  constexpr uint32_t kFirstNormal = 0x38800000U;  // 2^-14
  constexpr uint32_t kBeyond = 0x47800000U;       // 2^16
  constexpr uint32_t kInfinity = 0x7F800000U;
  constexpr uint32_t kRebias = (127U - 15U) << 23;  // difference of the exponents' biases
  const uint32_t sign = bits_of(value) & 0x80000000U;
  const uint32_t bits = bits_of(value) ^ sign;
  const uint32_t subnormal =
      bits_of(float_of(bits < kFirstNormal ? bits : 0U) + 0.5F) - 0x3F000000U;
  const uint32_t normal = (bits - kRebias + 0xFFFU + (bits >> 13 & 1U)) >> 13;
  const uint32_t special = bits > kInfinity ? 0x7E00U | (bits >> 13 & 0x3FFU) : 0x7C00U;
  const uint32_t result = bits >= kBeyond ? special : bits < kFirstNormal ? subnormal : normal;
  return static_cast<uint16_t>(result | sign >> 16);
}

HIDUP_HOST_DEVICE constexpr float from_float16(uint16_t half) {
  constexpr uint32_t kExponent = 0x7C00U << 13;
  constexpr uint32_t kRebias = (127U - 15U) << 23;
  const uint32_t bits = (static_cast<uint32_t>(half) & 0x7FFFU) << 13;
  const uint32_t exponent = bits & kExponent;
  const uint32_t special = exponent == kExponent ? (128U - 16U) << 23 : 0U;  // infinity, NaN
  const uint32_t normal = bits + kRebias + special;
  // Gives a subnormal number an exponent and subtracts the value that the exponent adds.
  const float subnormal = float_of(bits + (113U << 23)) - float_of(113U << 23);
  const uint32_t magnitude = exponent == 0U ? bits_of(subnormal) : normal;
  return float_of(magnitude | static_cast<uint32_t>(half & 0x8000U) << 16);
}

}  // namespace half_bits

// bfloat16: the upper half of a float; 8 bits of precision.
struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  HIDUP_HOST_DEVICE constexpr explicit BFloat16(float value)
      : bits(half_bits::to_bfloat16(value)) {}
  // Assigns without a temporary object, which would keep loops from vectorizing.
  HIDUP_HOST_DEVICE constexpr BFloat16& operator=(float value) {
    bits = half_bits::to_bfloat16(value);
    return *this;
  }
  HIDUP_HOST_DEVICE constexpr operator float() const { return half_bits::from_bfloat16(bits); }
};

// IEEE 754 binary16: 11 bits of precision, from 2^-24 to 65504.
struct Float16 {
  uint16_t bits;

  Float16() = default;
  HIDUP_HOST_DEVICE constexpr explicit Float16(float value) : bits(half_bits::to_float16(value)) {}
  // Assigns without a temporary object, which would keep loops from vectorizing.
  HIDUP_HOST_DEVICE constexpr Float16& operator=(float value) {
    bits = half_bits::to_float16(value);
    return *this;
  }
  HIDUP_HOST_DEVICE constexpr operator float() const { return half_bits::from_float16(bits); }
};

}  // namespace hidup
