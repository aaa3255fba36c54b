#include "kernels/bias.h"

#include <vector>

#include "kernels/cpu_columns.h"
#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void bias_forward(Stream& stream, const Element* x, const Element* b, Element* y, int64_t rows,
                  int64_t n, int64_t stride) {
  check_extents("bias", {rows, n});
  const int64_t apart = checked_stride("bias", rows, n, stride);
  stream.enqueue([=] {
    for_each(rows, [&](int64_t row) {
      const Element* in = x + row * apart;
      Element* out = y + row * apart;
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) {
        out[j] = in[j] + b[j];
      }
    });
  });
}

template <typename Element>
void bias_backward(Stream& stream, const Element* dy, float* db, int64_t rows, int64_t n,
                   bool accumulate, int64_t stride) {
  check_extents("bias_backward", {rows, n});
  const int64_t apart = checked_stride("bias_backward", rows, n, stride);
  stream.enqueue([=] {
    thread_local std::vector<float> memory;
    const RowBlocks blocks(rows);
    float* partials = scratch(memory, blocks.count * n);
    for_each(blocks.count, [&](int64_t block) {
      float* sum = partials + block * n;
      std::fill_n(sum, n, 0.0F);
      for (int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        const Element* gradient = dy + row * apart;
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
          sum[j] += gradient[j];
        }
      }
    });
    add_partials(partials, blocks.count, n, db, n, accumulate);
  });
}

HIDUP_INSTANTIATE(bias_forward);
HIDUP_INSTANTIATE(bias_backward);

}  // namespace hidup::kernels
