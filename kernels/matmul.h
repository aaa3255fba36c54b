// Matrix product.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct MatmulSize {
  int64_t m;
  int64_t n;
  int64_t k;
};

// c (+)= op(a) op(b), all row-major; sums are f32. Result: Element, or float. a: [m, k], or [k, m]
// if transpose_a; b: [k, n], or [n, k] if transpose_b; c: [m, n], which overlaps neither. With k =
// 0 the product is zero.
template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulSize size,
            bool transpose_a, bool transpose_b, bool accumulate);

}  // namespace hidup::kernels
