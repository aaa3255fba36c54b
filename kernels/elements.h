// The types that elements of activations and stored parameters have: `Element` below is float,
// BFloat16 or Float16. Kernels compute in float and round what they store; sums over rows and
// statistics are f32 whatever the elements are.
#pragma once

#include "core/half.h"

// NOLINTBEGIN(bugprone-macro-parentheses): a template's name takes none.
// A function template of elements for every type of them: at the end of a kernel's source.
#define HIDUP_INSTANTIATE(function)                         \
  template decltype(function<float>) function<float>;       \
  template decltype(function<BFloat16>) function<BFloat16>; \
  template decltype(function<Float16>) function<Float16>
// One of products likewise, whose second argument is the type of the result: the first again, or
// float.
#define HIDUP_INSTANTIATE_PRODUCT(function)                                     \
  template decltype(function<float, float>) function<float, float>;             \
  template decltype(function<BFloat16, BFloat16>) function<BFloat16, BFloat16>; \
  template decltype(function<BFloat16, float>) function<BFloat16, float>;       \
  template decltype(function<Float16, Float16>) function<Float16, Float16>;     \
  template decltype(function<Float16, float>) function<Float16, float>
// NOLINTEND(bugprone-macro-parentheses)
