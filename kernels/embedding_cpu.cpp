#include <algorithm>

#include "kernels/cpu_math.h"
#include "kernels/embedding.h"

namespace hidup::kernels {
namespace {

// The row of the table that is the token's, or -1 if it is not here.
int64_t row_of(int32_t token, const EmbeddingSize& size) {
  const int64_t row = token - size.first;
  return row >= 0 && row < size.vocab ? row : -1;
}

}  // namespace

void embedding_forward(Stream& stream, const int32_t* tokens, const float* table, float* y,
                       EmbeddingSize size, float scale) {
  stream.enqueue([=] {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < size.tokens; ++i) {
      const int64_t at = row_of(tokens[i], size);
      float* out = y + i * size.hidden;
      if (at < 0) {
        std::fill_n(out, size.hidden, 0.0F);
        continue;
      }
      const float* row = table + at * size.hidden;
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
        const int64_t at = row_of(tokens[i], size);
        if (at < 0) {
          continue;
        }
        const float* gradient = dy + i * size.hidden;
        float* sum = dtable + at * size.hidden;
#pragma omp simd
        for (int64_t j = first; j < end; ++j) {
          sum[j] += scale * gradient[j];
        }
      }
    }
  });
}

}  // namespace hidup::kernels
