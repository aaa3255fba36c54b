#include "kernels/norm.h"

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu_math.h"
#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Prefetches the next page, because the processor's own prefetching stops at the end of a page.
double sum_of_squares(const float* x, int64_t n) {
  constexpr int64_t kPage = 1024;
  double sum = 0.0;
  for (int64_t page = 0; page < n; page += kPage) {
    prefetch(x + page + kPage, kPage);
    sum += sum_of<double>(std::min(kPage, n - page), [at = x + page](int64_t i) {
      return static_cast<double>(at[i]) * static_cast<double>(at[i]);
    });
  }
  return sum;
}

}  // namespace

void squared_norm(Stream& stream, const float* x, int64_t n, float* sum, bool accumulate) {
  check_extents("squared_norm", {n});
  stream.enqueue([=] {
    constexpr int64_t kBlock = 16384;  // fixed, so that the rounding is the same for any team
    thread_local std::vector<double> memory;
    const int64_t blocks = ceil_div(n, kBlock);
    double* partials = scratch(memory, blocks);
    for_each(blocks, [&](int64_t block) {
      partials[block] = sum_of_squares(x + block * kBlock, std::min(kBlock, n - block * kBlock));
    });
    double total = accumulate ? static_cast<double>(*sum) : 0.0;
    for (int64_t block = 0; block < blocks; ++block) {
      total += partials[block];
    }
    *sum = static_cast<float>(total);
  });
}

void clip_scale(Stream& stream, const float* squared, float max_norm, float* norm, float* scale,
                StepState* state) {
  stream.enqueue([=] {
    *norm = std::sqrt(*squared) / state->loss_scale;
    const float coefficient = max_norm / (*norm + 1e-6F);
    const float clip = max_norm <= 0.0F || coefficient > 1.0F ? 1.0F : coefficient;
    const bool finite = std::isfinite(*norm);
    *scale = finite && !state->stopped ? clip / state->loss_scale
                                       : std::numeric_limits<float>::quiet_NaN();
    state->count(finite);
  });
}

}  // namespace hidup::kernels
