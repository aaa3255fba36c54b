#include "kernels/activations.h"
#include "kernels/bias.h"
#include "kernels/cuda_gemm.h"
#include "kernels/matmul.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulShape shape,
            bool accumulate) {
  check_size(shape);
  gemm(stream, a, b, c, {.shape = shape, .batch = {}}, accumulate);
}

template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulShape shape,
                 const Epilogue<Element>& epilogue) {
  check_epilogue(shape, epilogue.bias, epilogue.activation, epilogue.input);
  const int64_t m = shape.m;
  const int64_t n = shape.n;
  const int64_t k = shape.k;
  if (m == 0 || n == 0) {
    return;
  }
  const Product product{.shape = shape, .batch = {}};
  const bool gelu = epilogue.activation == Activation::gelu;
  if (gelu && k > 0 && gemm_bias(stream, a, b, y, product, epilogue)) {
    return;
  }
  Element* const sums = gelu ? epilogue.input : y;
  if (k == 0 || !gemm_bias(stream, a, b, sums, product, {.bias = epilogue.bias})) {
    gemm(stream, a, b, sums, product, false);
    bias_forward(stream, sums, epilogue.bias, sums, m, n, shape.c_stride);
  }
  if (gelu) {
    gelu_forward(stream, sums, y, m * n);
  } else if (epilogue.activation == Activation::relu) {
    relu_forward(stream, y, y, m * n);
  }
}

template <typename Element>
void matmul_gelu_backward(Stream& stream, const Element* a, const Element* b, const Element* x,
                          Element* c, MatmulShape shape) {
  check_gelu_backward(shape);
  const Product product{.shape = shape, .batch = {}};
  if (!gemm_gelu_backward(stream, a, b, x, c, product)) {
    gemm(stream, a, b, c, product, false);
    gelu_backward(stream, x, c, c, shape.m * shape.n);
  }
}

template <typename Element>
void matmul_sums(Stream& stream, const Element* a, const Element* b, float* c, MatmulShape shape,
                 Factor summed, float* sums, bool accumulate) {
  check_sums(shape);
  const Product product{.shape = shape, .batch = {}};
  if (gemm_sums(stream, a, b, c, product, summed, sums, accumulate)) {
    return;
  }
  gemm(stream, a, b, c, product, accumulate);
  if (summed == Factor::a) {
    bias_backward(stream, a, sums, shape.k, shape.m, accumulate, shape.lda());
  } else {
    bias_backward(stream, b, sums, shape.k, shape.n, accumulate, shape.ldb());
  }
}

HIDUP_INSTANTIATE_PRODUCT(matmul);
HIDUP_INSTANTIATE(matmul_bias);
HIDUP_INSTANTIATE(matmul_gelu_backward);
HIDUP_INSTANTIATE(matmul_sums);

}  // namespace hidup::kernels
