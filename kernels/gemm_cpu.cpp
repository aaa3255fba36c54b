#include <oneapi/dnnl/dnnl.h>

#include "core/check.h"
#include "kernels/cpu_gemm.h"

namespace hidup::kernels {

void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix<float> a, ConstMatrix<float> b, float beta,
          float* c, int64_t c_stride) noexcept {
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F, a.data,
                 a.stride, b.data, b.stride, beta, c, c_stride);
  check(status == dnnl_success, "dnnl_sgemm of m={} n={} k={} returned status {}", m, n, k,
        static_cast<int>(status));
}

}  // namespace hidup::kernels
