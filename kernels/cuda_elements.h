// Conversions between elements and floats, and vectors of elements. For CUDA kernels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda_math.h"
#include "kernels/elements.h"

#ifdef __CUDACC__
#define HIDUP_UNROLL _Pragma("unroll")
#else
#define HIDUP_UNROLL
#endif

namespace hidup::kernels {

__device__ inline float widen(float x) {
  return x;
}
__device__ inline float widen(BFloat16 x) {
  return __bfloat162float(__ushort_as_bfloat16(x.bits));
}
__device__ inline float widen(Float16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

// Number of elements in 16 bytes.
template <typename Element>
inline constexpr int kPerVector = 16 / static_cast<int>(sizeof(Element));

// kCount neighbours, read and written at once.
template <typename Element, int kCount = kPerVector<Element>>
struct alignas(kCount * sizeof(Element)) Vector {
  static constexpr int kSize = kCount;
  Element element[kCount];
};

// Calls visit() with the vector type for reading rows of n elements: 16 bytes if all addresses
// allow it, else one element.
template <typename Element, typename Visit>
void with_vectors(int64_t n, bool aligned, Visit visit) {
  if (aligned && n % kPerVector<Element> == 0) {
    visit(std::type_identity<Vector<Element>>{});
  } else {
    visit(std::type_identity<Vector<Element, 1>>{});
  }
}

template <typename Element, int kCount = kPerVector<Element>>
__device__ Vector<Element, kCount> load_vector(const Element* from) {
  return *reinterpret_cast<const Vector<Element, kCount>*>(from);
}
template <typename Element, int kCount>
__device__ void store_vector(Element* to, const Vector<Element, kCount>& vector) {
  if constexpr (sizeof(vector) == sizeof(uint64_t)) {  // else the compiler may make four stores
    *reinterpret_cast<uint64_t*>(to) = __builtin_bit_cast(uint64_t, vector);
  } else {
    *reinterpret_cast<Vector<Element, kCount>*>(to) = vector;
  }
}

// Return the elements nearest to floats; ties to even. One instruction converts two.
template <typename Element>
__device__ Element narrow(float x) {
  if constexpr (std::is_same_v<Element, float>) {
    return x;
  } else {
    Element y;
    if constexpr (std::is_same_v<Element, BFloat16>) {
      y.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    } else {
      y.bits = __half_as_ushort(__float2half_rn(x));
    }
    return y;
  }
}
template <typename Element>
__device__ Vector<Element, 2> narrow(float x, float y) {
  Vector<Element, 2> both;
  if constexpr (std::is_same_v<Element, BFloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    both.element[0].bits = __bfloat16_as_ushort(pair.x);
    both.element[1].bits = __bfloat16_as_ushort(pair.y);
  } else if constexpr (std::is_same_v<Element, Float16>) {
    const __half2 pair = __floats2half2_rn(x, y);
    both.element[0].bits = __half_as_ushort(pair.x);
    both.element[1].bits = __half_as_ushort(pair.y);
  } else {
    both.element[0] = x;
    both.element[1] = y;
  }
  return both;
}

template <typename Element, int kCount>
__device__ Vector<Element, kCount> narrow(const float (&values)[kCount]) {
  Vector<Element, kCount> out;
  if constexpr (kCount % 2 == 0) {
    for (int i = 0; i < kCount; i += 2) {
      const Vector<Element, 2> both = narrow<Element>(values[i], values[i + 1]);
      out.element[i] = both.element[0];
      out.element[i + 1] = both.element[1];
    }
  } else {
    for (int i = 0; i < kCount; ++i) {
      out.element[i] = narrow<Element>(values[i]);
    }
  }
  return out;
}

// Returns function(a, b) of each pair, in float. Takes values, so that both are read at once.
template <typename Function, typename Element, int kCount>
__device__ Vector<Element, kCount> apply(Function function, Vector<Element, kCount> a,
                                         Vector<Element, kCount> b) {
  float values[kCount];
  for (int i = 0; i < kCount; ++i) {
    values[i] = function(widen(a.element[i]), widen(b.element[i]));
  }
  return narrow<Element>(values);
}

}  // namespace hidup::kernels
