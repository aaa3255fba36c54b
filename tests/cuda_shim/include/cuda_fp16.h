// Stands in for CUDA's <cuda_fp16.h>: the type and its conversions, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda_shim/vector_types.h"

struct __align__(2) __half {
  uint16_t bits;
};

struct __align__(4) __half2 {
  __half x, y;
};

inline float __half2float(__half value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000U} << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1FU;
  const uint32_t mantissa = value.bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormal numbers: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide = exponent == 0x1FU ? 0xFFU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

inline __half __float2half_rn(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return {0x7FFF};  // NaN, as CUDA makes it
  }
  if (magnitude >= 0x477FF000U) {  // rounds to 2^16 or more
    return {static_cast<uint16_t>(sign | 0x7C00U)};
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: the sum's last bit is worth 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U))};
  }
  const uint32_t rounded = magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13) & 1U);
  return {static_cast<uint16_t>(sign | (rounded >> 13))};
}

inline __half __float2half(float value) {
  return __float2half_rn(value);
}

inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}

inline uint16_t __half_as_ushort(__half value) {
  return value.bits;
}

inline __half __ushort_as_half(uint16_t bits) {
  return {bits};
}
