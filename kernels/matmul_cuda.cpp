#include "kernels/cuda_gemm.h"
#include "kernels/matmul.h"

namespace hidup::kernels {

void matmul(Stream& stream, const float* a, const float* b, float* c, MatmulSize size,
            bool transpose_a, bool transpose_b, bool accumulate) {
  gemm(stream, a, b, c,
       {.size = size, .transpose_a = transpose_a, .transpose_b = transpose_b, .batch = {}},
       accumulate);
}

}  // namespace hidup::kernels
