#include <algorithm>

#include "kernels/cpu_math.h"
#include "kernels/embedding.h"

namespace hidup::kernels {

void embedding_forward(Stream& stream, const int32_t* tokens, const float* table, float* y,
                       EmbeddingSize size, float scale) {
  stream.enqueue([=] {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < size.tokens; ++i) {
      const float* row = table + tokens[i] * size.hidden;
      float* out = y + i * size.hidden;
#pragma omp simd
      for (int64_t j = 0; j < size.hidden; ++j) {
        out[j] = scale * row[j];
      }
    }
  });
}

void embedding_backward(Stream& stream, const int32_t* tokens, const float* dy, float* dtable,
                        EmbeddingSize size, float scale, bool accumulate) {
  stream.enqueue([=] {
    if (!accumulate) {
      const int64_t n = size.vocab * size.hidden;
#pragma omp parallel for simd schedule(static)
      for (int64_t i = 0; i < n; ++i) {
        dtable[i] = 0.0F;
      }
    }
    // A task owns columns, for all tokens: no two tasks add to the same element, and
    // frequent tokens burden none more than the others.
    constexpr int64_t kColumns = 128;
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < size.hidden; first += kColumns) {
      const int64_t end = std::min(size.hidden, first + kColumns);
      for (int64_t i = 0; i < size.tokens; ++i) {
        const float* gradient = dy + i * size.hidden;
        float* sum = dtable + tokens[i] * size.hidden;
#pragma omp simd
        for (int64_t j = first; j < end; ++j) {
          sum[j] += scale * gradient[j];
        }
      }
    }
  });
}

}  // namespace hidup::kernels
