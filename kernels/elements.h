// Element types of activations and stored parameters: `Element` is float, BFloat16 or Float16.
// Kernels compute in float and round stored values; sums over rows and statistics are always f32.
#pragma once

#include "core/half.h"

// NOLINTBEGIN(bugprone-macro-parentheses): a template's name takes none.
// Instantiates a function template for every element type, at the end of a kernel's source.
#define HIDUP_INSTANTIATE(function)                         \
  template decltype(function<float>) function<float>;       \
  template decltype(function<BFloat16>) function<BFloat16>; \
  template decltype(function<Float16>) function<Float16>
// Instantiates a template of products; its second argument, the result's type, may be float.
#define HIDUP_INSTANTIATE_PRODUCT(function)                                     \
  template decltype(function<float, float>) function<float, float>;             \
  template decltype(function<BFloat16, BFloat16>) function<BFloat16, BFloat16>; \
  template decltype(function<BFloat16, float>) function<BFloat16, float>;       \
  template decltype(function<Float16, Float16>) function<Float16, Float16>;     \
  template decltype(function<Float16, float>) function<Float16, float>
// NOLINTEND(bugprone-macro-parentheses)
