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
  // Leading dimensions: elements from one row of a matrix, as it is stored, to the next. 0: as many
  // as a row has.
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;

  int64_t a_rows() const { return transpose_a ? k : m; }
  int64_t a_columns() const { return transpose_a ? m : k; }
  int64_t b_rows() const { return transpose_b ? n : k; }
  int64_t b_columns() const { return transpose_b ? k : n; }
  int64_t lda() const { return a_stride > 0 ? a_stride : a_columns(); }
  int64_t ldb() const { return b_stride > 0 ? b_stride : b_columns(); }
  int64_t ldc() const { return c_stride > 0 ? c_stride : n; }
  // Elements of c from its first to its last one; c is not empty.
  int64_t c_span() const { return (m - 1) * ldc() + n; }
};

// c (+)= op(a) op(b), all row-major; sums are f32. Result: Element, or float. a: [m, k], or [k, m]
// if transpose_a; b: [k, n], or [n, k] if transpose_b; c: [m, n], which overlaps neither. With k =
// 0 the product is zero. What lies between two rows is not read; in c it may be overwritten.
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

// y = activation(a op(b) + bias), as matmul(), bias.h and activations.h do it one after the
// other, except that in 16 bits what goes from one to the next need not be rounded. y: [m, n]; y,
// epilogue.input and the operands overlap nowhere. a is not transposed, and y is dense where there
// is an activation. With k = 0 the product is zero.
template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulShape shape,
                 const Epilogue<Element>& epilogue);

// c = op(a) op(b) gelu'(x), element by element, as matmul() and gelu_backward() (activations.h) do
// it one after the other, except that in 16 bits the product need not be rounded. x, c: [m, n],
// dense; c overlaps no operand. With k = 0 the product is zero.
template <typename Element>
void matmul_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                          Element* c, MatmulShape shape);

enum class Factor { a, b };  // of a product

// matmul() of a that is transposed and b that is not, so that both are stored as k rows, and beside
// it sums (+)= the sum of the rows of one of them, as bias_backward() (bias.h) has it. sums: [m] of
// a, [n] of b; it overlaps nothing else. `accumulate` holds for both results.
template <typename Element>
void matmul_sums(Stream& stream, const Element* a, const Element* b, float* c, MatmulShape shape,
                 Factor summed, float* sums, bool accumulate);

}  // namespace hidup::kernels
