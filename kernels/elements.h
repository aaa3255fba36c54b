// The types that elements of activations and stored parameters have: `Element` below is float,
// BFloat16 or Float16. Kernels compute in float and round what they store; sums over rows and
// statistics are f32 whatever the elements are.
#pragma once

#include "core/half.h"

// macro(T) for every one of them: for the explicit instantiations at the end of a kernel's source.
#define HIDUP_FOR_ELEMENTS(macro) macro(float) macro(BFloat16) macro(Float16)
// macro(T, R) likewise of products: R is the type of the result, T again or float.
#define HIDUP_FOR_PRODUCTS(macro)                                                              \
  macro(float, float) macro(BFloat16, BFloat16) macro(BFloat16, float) macro(Float16, Float16) \
      macro(Float16, float)
