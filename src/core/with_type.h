// Translation of a dtype, known at run time, into the type of its elements.
#pragma once

#include "core/check.h"
#include "core/dtype.h"
#include "core/half.h"

namespace hidup {

// Returns work(T()) for the type T of elements of that dtype. Throws Error(internal) for integers.
template <typename Work>
auto with_floating_type(DType dtype, Work work) {
  check(is_floating(dtype), "{} is no floating type", name_of(dtype));
  switch (dtype) {
    case DType::bf16:
      return work(BFloat16());
    case DType::f16:
      return work(Float16());
    default:
      return work(float());
  }
}

}  // namespace hidup
