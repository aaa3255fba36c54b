#include "kernels/bias.h"
#include "kernels/cuda_gemm.h"
#include "kernels/gelu.h"
#include "kernels/matmul.h"
#include "kernels/relu.h"

namespace hidup::kernels {

template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulSize size,
            bool transpose_a, bool transpose_b, bool accumulate) {
  gemm(stream, a, b, c,
       {.size = size, .transpose_a = transpose_a, .transpose_b = transpose_b, .batch = {}},
       accumulate);
}

template <typename Element>
void matmul_bias(Stream& stream, const Element* a, const Element* b, Element* y, MatmulSize size,
                 bool transpose_b, const Epilogue<Element>& epilogue) {
  const auto [m, n, k] = size;
  if (m == 0 || n == 0) {
    return;
  }
  const Product product{.size = size, .transpose_b = transpose_b, .batch = {}};
  const bool gelu = epilogue.activation == Activation::gelu;
  if (gelu && k > 0 && gemm_bias(stream, a, b, y, product, epilogue)) {
    return;
  }
  Element* const sums = gelu ? epilogue.input : y;
  if (k == 0 || !gemm_bias(stream, a, b, sums, product, {.bias = epilogue.bias})) {
    gemm(stream, a, b, sums, product, false);
    bias_forward(stream, sums, epilogue.bias, sums, m, n);
  }
  if (gelu) {
    gelu_forward(stream, sums, y, m * n);
  } else if (epilogue.activation == Activation::relu) {
    relu_forward(stream, y, y, m * n);
  }
}

#define INSTANTIATE(Element, Result) \
  template decltype(matmul<Element, Result>) matmul<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

#define INSTANTIATE(Element) template decltype(matmul_bias<Element>) matmul_bias<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
