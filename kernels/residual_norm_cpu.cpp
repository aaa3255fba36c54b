#include "kernels/residual_norm.h"

#include "kernels/cpu_layer_norm.h"
#include "kernels/cpu_random.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// sum = residual + dropout(branch) for n elements from number `index` of the global tensor on.
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
void residual_norm(Stream& stream, const ResidualNorm<Element>& args) {
  check_normalized_rows("residual_norm", args.rows, args.n);
  check_mask_of_rows("residual_norm", args.dropout, args.rows, args.n);
  stream.enqueue([=] {
    const DropoutMask& mask = args.dropout;
    const int64_t n = args.n;
    for_each(args.rows, [&](int64_t row) {
      const int64_t at = row * n;
      const Element* branch = args.branch + at;
      const Element* residual = args.residual + at;
      Element* sum = args.sum + at;
      if (mask.p > 0.0F) {
        add_dropped(branch, residual, static_cast<uint64_t>(mask.region.global_index(at)),
                    RandomStream{mask.key, mask.state->step}, mask.p, sum, n);
      } else {
#pragma omp simd
        for (int64_t j = 0; j < n; ++j) {
          sum[j] = residual[j] + branch[j];
        }
      }
      normalize(sum, args.gamma, args.beta, args.y + at, row_at(args.mean, row), args.rstd + row, n,
                args.eps);
    });
  });
}

HIDUP_INSTANTIATE(residual_norm);

}  // namespace hidup::kernels
