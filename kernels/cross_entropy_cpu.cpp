#include "kernels/cross_entropy.h"

#include <cmath>
#include <vector>

#include "kernels/cpu_math.h"

namespace hidup::kernels {
namespace {

// The sum of exp(x - shift): in single precision over short stretches, in double over
// those, for a vocabulary may be large.
double sum_of_exponentials(const float* x, int64_t n, float shift) {
  constexpr int64_t kStretch = 1024;
  double total = 0.0;
  for (int64_t first = 0; first < n; first += kStretch) {
    const int64_t end = std::min(n, first + kStretch);
    total += static_cast<double>(
        sum_of(end - first, [=](int64_t j) { return fast_exp(x[first + j] - shift); }));
  }
  return total;
}

}  // namespace

void cross_entropy_forward(Stream& stream, const float* logits, const int32_t* targets, float* lse,
                           float* loss, int64_t rows, int64_t vocab, float scale, bool accumulate) {
  stream.enqueue([=] {
    thread_local std::vector<double> memory;
    double* losses = scratch(memory, rows);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const float* x = logits + row * vocab;
      const float largest = max_of(x, vocab);
      const double value =
          static_cast<double>(largest) + std::log(sum_of_exponentials(x, vocab, largest));
      lse[row] = static_cast<float>(value);
      losses[row] = value - static_cast<double>(x[targets[row]]);
    }
    double sum = 0.0;
    for (int64_t row = 0; row < rows; ++row) {
      sum += losses[row];
    }
    const auto share = static_cast<float>(static_cast<double>(scale) * sum);
    *loss = accumulate ? *loss + share : share;
  });
}

void cross_entropy_backward(Stream& stream, const float* logits, const int32_t* targets,
                            const float* lse, float* dlogits, int64_t rows, int64_t vocab,
                            float scale) {
  stream.enqueue([=] {
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const float* x = logits + row * vocab;
      float* dx = dlogits + row * vocab;
      const float shift = lse[row];
#pragma omp simd
      for (int64_t j = 0; j < vocab; ++j) {
        dx[j] = scale * fast_exp(x[j] - shift);
      }
      dx[targets[row]] -= scale;
    }
  });
}

}  // namespace hidup::kernels
