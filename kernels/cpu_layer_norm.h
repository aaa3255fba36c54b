// Inside the CPU kernels: layer normalization (layer_norm.h) and root mean square normalization
// (rms_norm.h) of a row.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu_math.h"

namespace hidup::kernels {

// y may be x.
template <typename Element>
void normalize(const Element* x, const Element* gamma, const Element* beta, Element* y, float& mean,
               float& rstd, int64_t n, float eps) {
  const float average = sum_of(n, [=](int64_t j) { return float{x[j]}; }) / static_cast<float>(n);
  // From the differences: the mean of the squares would cancel where the mean is large.
  const float squares = sum_of(n, [=](int64_t j) { return (x[j] - average) * (x[j] - average); });
  const float factor = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
  mean = average;
  rstd = factor;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    y[j] = (x[j] - average) * factor * gamma[j] + beta[j];
  }
}

// y may be x.
template <typename Element>
void normalize_square(const Element* x, const Element* gamma, Element* y, float& rstd, int64_t n,
                      float eps) {
  const float squares = sum_of(n, [=](int64_t j) { return float{x[j]} * float{x[j]}; });
  const float factor = 1.0F / std::sqrt(squares / static_cast<float>(n) + eps);
  rstd = factor;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    y[j] = x[j] * factor * gamma[j];
  }
}

// x + at; null stays null.
template <typename Element>
const Element* row_at(const Element* x, int64_t at) {
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

// dx[j] = own(j) + added[j], or own(j) where that is null; dx may be what own() reads at j, or
// added.
template <typename Element, typename Own>
void write_gradient(Own own, const Element* added, Element* dx, int64_t n) {
  if (added == nullptr) {
    write_row(own, dx, n);
  } else {
    write_row([=](int64_t j) { return own(j) + added[j]; }, dx, n);
  }
}

}  // namespace hidup::kernels
