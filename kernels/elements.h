// The types that elements of activations and stored parameters have: `Element` below is float,
// BFloat16 or Float16. Kernels compute in float and round what they store; sums over rows and
// statistics are f32 whatever the elements are.
#pragma once

#include "core/half.h"

// macro(T) for every one of them: for the explicit instantiations at the end of a kernel's source.
#define HIDUP_FOR_ELEMENTS(macro) macro(float) macro(BFloat16) macro(Float16)
