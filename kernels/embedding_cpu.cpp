#include <algorithm>

#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/embedding.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Returns the row of the table for the token, or -1 if this rank lacks it.
int64_t row_of(int32_t token, const EmbeddingSize& size) {
  const int64_t row = token - size.first;
  return row >= 0 && row < size.vocab ? row : -1;
}

}  // namespace

template <typename Element>
void embedding_forward(Stream& stream, const int32_t* tokens, const Element* table, Element* y,
                       EmbeddingSize size, float scale) {
  check_size(size);
  stream.enqueue([=] {
    for_each(size.tokens, [&](int64_t i) {
      const int64_t at = row_of(tokens[i], size);
      Element* out = y + i * size.hidden;
      if (at < 0) {
        std::fill_n(out, size.hidden, Element(0.0F));
        return;
      }
      const Element* row = table + at * size.hidden;
#pragma omp simd
      for (int64_t j = 0; j < size.hidden; ++j) {
        out[j] = scale * row[j];
      }
    });
  });
}

template <typename Element>
void embedding_backward(Stream& stream, const EmbeddingBackward<Element>& args) {
  check_size(args.size);
  stream.enqueue([=] {
    const EmbeddingSize size = args.size;
    const float scale = args.scale;
    float* const dtable = args.dtable;
    if (!args.accumulate) {
      const int64_t n = size.vocab * size.hidden;
      for_each_element(n, [=](int64_t i) { dtable[i] = 0.0F; });
    }
    // A task owns columns, for all tokens: no two tasks add to the same element, and all tasks have
    // equal work even if some tokens are frequent.
    constexpr int64_t kColumns = 128;
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < size.hidden; first += kColumns) {
      const int64_t end = std::min(size.hidden, first + kColumns);
      for (int64_t i = 0; i < size.tokens; ++i) {
        const int64_t at = row_of(args.tokens[i], size);
        if (at < 0) {
          continue;
        }
        const Element* gradient = args.dy + i * size.hidden;
        float* sum = dtable + at * size.hidden;
#pragma omp simd
        for (int64_t j = first; j < end; ++j) {
          sum[j] += scale * gradient[j];
        }
      }
    }
  });
}

HIDUP_INSTANTIATE(embedding_forward);
HIDUP_INSTANTIATE(embedding_backward);

}  // namespace hidup::kernels
