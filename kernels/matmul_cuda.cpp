#include "kernels/cuda_gemm.h"
#include "kernels/matmul.h"

namespace hidup::kernels {

template <typename Element, typename Result>
void matmul(Stream& stream, const Element* a, const Element* b, Result* c, MatmulSize size,
            bool transpose_a, bool transpose_b, bool accumulate) {
  gemm(stream, a, b, c,
       {.size = size, .transpose_a = transpose_a, .transpose_b = transpose_b, .batch = {}},
       accumulate);
}

#define INSTANTIATE(Element, Result) \
  template decltype(matmul<Element, Result>) matmul<Element, Result>;
HIDUP_FOR_PRODUCTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
