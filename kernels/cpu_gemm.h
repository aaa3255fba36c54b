// Inside the CPU kernels: one matrix product on the calling thread.
#pragma once

#include <cstdint>

namespace hidup::kernels {

// A row-major matrix: rows are `stride` elements apart.
struct ConstMatrix {
  const float* data;
  int64_t stride;
  bool transposed = false;
};

// c[m,n] = op(a) op(b) + beta * c. Called inside a parallel region it computes on the
// calling thread alone, so that its rounding does not depend on the team: oneDNN would
// otherwise split long sums among the threads. It can fail only on a lack of memory for
// packing, which ends the process, for no exception may leave a parallel region.
void gemm(int64_t m, int64_t n, int64_t k, ConstMatrix a, ConstMatrix b, float beta, float* c,
          int64_t c_stride) noexcept;

}  // namespace hidup::kernels
