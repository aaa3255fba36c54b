#include "kernels/dropout.h"

#include <algorithm>

#include "kernels/cpu_math.h"
#include "kernels/cpu_random.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
template <typename Element>
void dropout(Stream& stream, const Element* x, Element* y, const DropoutMask& mask) {
  check_mask("dropout", mask);
  stream.enqueue([=] {
    const Region& region = mask.region;
    const int64_t elements = region.elements();
    if (elements == 0) {
      return;
    }
    const RandomStream random{mask.key, mask.state->step};
    const uint32_t threshold = dropout_threshold(mask.p);
    const float scale = 1.0F / (1.0F - mask.p);
    const int64_t run = region.contiguous_run();
    const int64_t chunks = ceil_div(run, kWordsAtATime);
    for_each(elements / run * chunks, [&](int64_t task) {
      const int64_t begin = task % chunks * kWordsAtATime;
      const int64_t local = task / chunks * run + begin;
      const auto index = static_cast<uint64_t>(region.global_index(local));
      for_words(random, index, std::min(kWordsAtATime, run - begin),
                [&](int64_t, int64_t length, const uint32_t* word) {
#pragma omp simd
                  for (int64_t i = 0; i < length; ++i) {
                    const float value = x[local + i] * scale;
                    y[local + i] = word[i] >= threshold ? value : 0.0F;
                  }
                });
    });
  });
}

HIDUP_INSTANTIATE(dropout);

}  // namespace hidup::kernels
