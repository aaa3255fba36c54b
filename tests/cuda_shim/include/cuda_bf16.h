// Stands in for CUDA's <cuda_bf16.h>: the type and its conversions, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda_shim/vector_types.h"

struct __align__(2) __nv_bfloat16 {
  uint16_t bits;
};

struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return {0x7FFF};  // NaN, as CUDA makes it
  }
  const uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  return {static_cast<uint16_t>(rounded >> 16)};
}

inline __nv_bfloat16 __float2bfloat16(float value) {
  return __float2bfloat16_rn(value);
}

inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 value) {
  return value.bits;
}

inline __nv_bfloat16 __ushort_as_bfloat16(uint16_t bits) {
  return {bits};
}
