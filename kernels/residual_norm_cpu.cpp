#include "kernels/residual_norm.h"

#include "kernels/cpu_layer_norm.h"
#include "kernels/cpu_random.h"

namespace hidup::kernels {
namespace {

// n elements of which the first is number `index` of the global tensor.
template <typename Element>
void add_dropped(const Element* branch, const Element* residual, uint64_t index,
                 const RandomStream& random, float p, Element* sum, int64_t n) {
  const uint32_t threshold = dropout_threshold(p);
  const float scale = 1.0F / (1.0F - p);
  for_words(random, index, n, [&](int64_t begin, int64_t length, const uint32_t* word) {
#pragma omp simd
    for (int64_t i = 0; i < length; ++i) {
      const float value = branch[begin + i] * scale;
      sum[begin + i] = residual[begin + i] + (word[i] >= threshold ? value : 0.0F);
    }
  });
}

}  // namespace

template <typename Element>
void residual_norm(Stream& stream, const Element* branch, const Element* residual,
                   const BranchDropout& dropout, const Element* gamma, const Element* beta,
                   Element* sum, Element* y, float* mean, float* rstd, int64_t rows, int64_t n,
                   float eps) {
  stream.enqueue([=] {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row * n;
      if (dropout.p > 0.0F) {
        add_dropped(branch + at, residual + at,
                    static_cast<uint64_t>(dropout.region.global_index(at)),
                    RandomStream{dropout.key, dropout.state->step}, dropout.p, sum + at, n);
      } else {
#pragma omp simd
        for (int64_t j = at; j < at + n; ++j) {
          sum[j] = residual[j] + branch[j];
        }
      }
      normalize(sum + at, gamma, beta, y + at, mean[row], rstd[row], n, eps);
    }
  });
}

#define INSTANTIATE(Element) template decltype(residual_norm<Element>) residual_norm<Element>;
HIDUP_FOR_ELEMENTS(INSTANTIATE)
#undef INSTANTIATE

}  // namespace hidup::kernels
