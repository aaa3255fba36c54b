// Layer normalization (layer_norm.h) of a row, for CPU kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu_math.h"

namespace hidup::kernels {

// Returns x + at, or null if x is null.
template <typename Element>
Element* row_at(Element* x, int64_t at) {
  return x != nullptr ? x + at : nullptr;
}

// x[j] = term(j).
template <typename Element, typename Term>
void write_row(Term term, Element* x, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    x[j] = term(j);
  }
}

// Returns the difference between an element and its row's mean, or from 0 for RMS norm.
template <bool kCentered, typename Element>
float from_mean(Element x, float mean) {
  return kCentered ? x - mean : float{x};
}

// Normalizes a row; y may be x.
template <bool kCentered, typename Element>
void normalize(const Element* x, const Element* gamma, const Element* beta, Element* y, float* mean,
               float* rstd, int64_t n, float eps) {
  float average = 0.0F;
  if constexpr (kCentered) {
    average = sum_of(n, [=](int64_t j) { return float{x[j]}; }) / static_cast<float>(n);
    *mean = average;
  }
  const auto away = [=](int64_t j) { return from_mean<kCentered>(x[j], average); };
  // Squares the differences: the mean of the squares would cancel if the mean is large.
  const float squares = sum_of(n, [=](int64_t j) { return away(j) * away(j); });
  const float factor = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
  *rstd = factor;
  const auto scaled = [=](int64_t j) { return away(j) * factor * gamma[j]; };
  if constexpr (kCentered) {
    write_row([=](int64_t j) { return scaled(j) + beta[j]; }, y, n);
  } else {
    write_row(scaled, y, n);
  }
}

// Uses RMS norm if beta is null.
template <typename Element>
void normalize(const Element* x, const Element* gamma, const Element* beta, Element* y, float* mean,
               float* rstd, int64_t n, float eps) {
  if (beta != nullptr) {
    normalize<true>(x, gamma, beta, y, mean, rstd, n, eps);
  } else {
    normalize<false>(x, gamma, beta, y, mean, rstd, n, eps);
  }
}

}  // namespace hidup::kernels
