#include <algorithm>

#include "kernels/cpu_expert_rows.h"
#include "kernels/cpu_math.h"
#include "kernels/expert_matmul.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {

template <typename Element>
void expert_bias(Stream& stream, const Element* x, const Element* bias, const int32_t* counts,
                 Element* y, ExpertSize size) {
  check_size(size);
  stream.enqueue([=] {
    clear_unused(y, size.n, counts, size);
    const RowsInUse rows(counts, size);
    for_each(rows.count(), [&](int64_t used) {
      const int64_t row = rows.places(0)[used];
      const Element* in = x + row * size.n;
      const Element* added = bias + rows.expert_of(used) * size.n;
      Element* out = y + row * size.n;
#pragma omp simd
      for (int64_t j = 0; j < size.n; ++j) {
        out[j] = in[j] + added[j];
      }
    });
  });
}

template <typename Element>
void expert_bias_backward(Stream& stream, const Element* dy, const int32_t* counts, float* dbias,
                          ExpertSize size, bool accumulate) {
  check_size(size);
  stream.enqueue([=] {
    constexpr int64_t kColumns = 64;
    constexpr int64_t kRows = 64;  // summed separately, so that long sums lose less
    const int64_t across = ceil_div(size.n, kColumns);
    const RowsInUse rows(counts, size);
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < size.experts * across; ++task) {
      const int64_t expert = task / across;
      const int64_t column = task % across * kColumns;
      const int64_t columns = std::min(kColumns, size.n - column);
      float total[kColumns] = {};
      const int64_t* places = rows.places(expert);
      for (int64_t first = 0; first < rows.count(expert); first += kRows) {
        float sum[kColumns] = {};
        for (int64_t i = first; i < std::min(rows.count(expert), first + kRows); ++i) {
          const Element* row = dy + places[i] * size.n + column;
#pragma omp simd
          for (int64_t j = 0; j < columns; ++j) {
            sum[j] += row[j];
          }
        }
        for (int64_t j = 0; j < columns; ++j) {
          total[j] += sum[j];
        }
      }
      float* out = dbias + expert * size.n + column;
      for (int64_t j = 0; j < columns; ++j) {
        out[j] = accumulate ? out[j] + total[j] : total[j];
      }
    }
  });
}

HIDUP_INSTANTIATE(expert_bias);
HIDUP_INSTANTIATE(expert_bias_backward);

}  // namespace hidup::kernels
