// Matrix product.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "kernels/elements.h"

namespace hidup::kernels {

struct MatmulShape {
  int64_t m;
  int64_t n;
  int64_t k;
  bool transpose_a = false;
  bool transpose_b = false;
};

// c (+)= op(a) op(b), all row-major; sums are f32. Result: Element, or float. a: [m, k], or [k, m]
// if transpose_a; b: [k, n], or [n, k] if transpose_b; c: [m, n], which overlaps neither. With k =
// 0 the product is zero.
template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulShape shape,
            bool accumulate);

enum class Activation { none, relu, gelu };

// What is applied to a product before it is stored.
template <typename Element>
struct Epilogue {
  const Element* bias = nullptr;  // [n], added to every row
  Activation activation = Activation::none;
  Element* input = nullptr;  // [m, n]: gelu's input, for its backward pass; null without gelu
};

// y = activation(a op(b) + bias), as matmul(), bias.h, and relu.h or gelu.h do it one after the
// other, except that in 16 bits what goes from one to the next need not be rounded. y: [m, n]; y,
// epilogue.input and the operands overlap nowhere. a is not transposed. With k = 0 the product is
// zero.
template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulShape shape,
                 const Epilogue<Element>& epilogue);

}  // namespace hidup::kernels
