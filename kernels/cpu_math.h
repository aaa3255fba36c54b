// Arithmetic that vectorizes, and scratch memory, for CPU kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace hidup::kernels {

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Returns at least n elements of `memory`, which its (thread_local) owner reuses between calls.
template <typename T>
T* scratch(std::vector<T>& memory, int64_t n) {
  if (static_cast<int64_t>(memory.size()) < n) {
    memory.resize(static_cast<size_t>(n));
  }
  return memory.data();
}

// Prefetches n elements from x on, which need not exist.
template <typename Element>
void prefetch(const Element* x, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(Element))) {
    __builtin_prefetch(x + i);
  }
}

// Convert n elements to floats, and floats to elements.
template <typename Element>
void widen(const Element* from, int64_t n, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    to[i] = from[i];
  }
}
template <typename Element>
void narrow(const float* from, int64_t n, Element* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    to[i] = from[i];
  }
}

// Returns memory for the sums of n elements: `out` itself for floats, otherwise `memory`, from
// which round_to() copies.
template <typename Element>
float* sums_for(Element* out, int64_t n, std::vector<float>& memory) {
  if constexpr (std::is_same_v<Element, float>) {
    return out;
  } else {
    return scratch(memory, n);
  }
}
template <typename Element>
void round_to(const float* sums, int64_t n, Element* out) {
  if constexpr (!std::is_same_v<Element, float>) {
    narrow(sums, n, out);
  }
}

// exp(x) for x <= 88, within 1.2e-7 relative; 0 below -87; NaN stays NaN. Cephes' expf (S. Moshier)
// without branches and library calls, so that a loop of it vectorizes.
inline float fast_exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kRound = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  const float clamped = x < -87.0F ? -87.0F : x;
  const float shifted = clamped * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = (p * r) * r + (r + 1.0F);
  // 2^n, from n in the low bits of `shifted`.
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127U) << 23;
  return x < -87.0F ? 0.0F : p * std::bit_cast<float>(exponent);
}

// Combines start with term(0), ..., term(n-1), in an order that depends on n alone: 32 (f64: 16)
// running values, four vector registers, hide the latency of additions.
template <typename T, typename Term, typename Combine>
T reduce(int64_t n, T start, Term term, Combine combine) {
  constexpr int64_t kLanes = 128 / sizeof(T);
  T lane[kLanes];
#pragma omp simd
  for (int64_t j = 0; j < kLanes; ++j) {
    lane[j] = start;
  }
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) {
      lane[j] = combine(lane[j], term(i + j));
    }
  }
#pragma omp simd
  for (int64_t j = 0; j < n - i; ++j) {
    lane[j] = combine(lane[j], term(i + j));
  }
#pragma GCC unroll 8
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
#pragma omp simd
    for (int64_t j = 0; j < half; ++j) {
      lane[j] = combine(lane[j], lane[j + half]);
    }
  }
  return lane[0];
}

template <typename T = float, typename Term>
T sum_of(int64_t n, Term term) {
  return reduce(n, T{0}, term, [](T a, T b) { return a + b; });
}

// Returns the maximum of x[0 .. n), or -infinity if n is 0.
template <typename Element>
float max_of(const Element* x, int64_t n) {
  return reduce(
      n, -std::numeric_limits<float>::infinity(), [=](int64_t i) { return float{x[i]}; },
      [](float a, float b) { return a > b ? a : b; });
}

}  // namespace hidup::kernels
