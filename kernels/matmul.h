// Matrix products.
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
  // Leading dimensions: elements between the stored rows of a matrix. 0: the length of a row.
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
  // Returns the elements of c from its first to its last one; c is not empty.
  int64_t c_span() const { return (m - 1) * ldc() + n; }
};

// c (+)= op(a) op(b), all row-major; sums are f32. Result: Element, or float. a: [m, k], or [k, m]
// if transpose_a; b: [k, n], or [n, k] if transpose_b; c: [m, n], which overlaps neither. With k =
// 0 the product is zero. Gaps between rows are not read; in c they may be overwritten.
template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulShape shape,
            bool accumulate);

enum class Activation { none, relu, gelu };

// Operations on a product before it is stored.
template <typename Element>
struct Epilogue {
  const Element* bias = nullptr;  // [n], added to every row
  Activation activation = Activation::none;
  Element* input = nullptr;  // [m, n]: gelu's input, for its backward pass; null without gelu
};

// y = activation(a op(b) + bias), like matmul(), bias.h and activations.h in turn, except that
// intermediate 16-bit values need not be rounded. y: [m, n]; y, epilogue.input and the operands do
// not overlap. a is not transposed; y is dense if there is an activation. k = 0: the product is
// zero.
template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulShape shape,
                 const Epilogue<Element>& epilogue);

// c = op(a) op(b) gelu'(x), elementwise, like matmul() and gelu_backward() (activations.h) in turn,
// except that a 16-bit product need not be rounded. x, c: [m, n], dense; c overlaps no operand.
// With k = 0 the product is zero.
template <typename Element>
void matmul_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                          Element* c, MatmulShape shape);

enum class Factor { a, b };  // a factor of a product

// matmul() of a transposed a and an untransposed b, both stored as k rows. It also computes sums
// (+)= the sum of the rows of one of them, like bias_backward() (bias.h). sums: [m] for a, [n] for
// b; it overlaps nothing else. `accumulate` holds for both results.
template <typename Element>
void matmul_sums(Stream& stream, const Element* a, const Element* b, float* c, MatmulShape shape,
                 Factor summed, float* sums, bool accumulate);

}  // namespace hidup::kernels
