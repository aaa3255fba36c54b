#include "kernels/cuda_math.h"
#include "kernels/norm.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

constexpr int64_t kBlock = 16384;  // elements that a block of threads sums

__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* x, int64_t n, double* partials) {
  const int64_t begin = blockIdx.x * kBlock;
  const int64_t end = smaller(n, begin + kBlock);
  double sum = 0.0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  sum = group_reduce<kThreads>(sum, Sum{});
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = sum;
  }
}

// One block adds up all partial sums.
__global__ void __launch_bounds__(kThreads)
    total_kernel(const double* partials, int64_t count, float* sum, bool accumulate) {
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) {
    total += partials[i];
  }
  total = group_reduce<kThreads>(total, Sum{});
  if (threadIdx.x == 0) {
    *sum = static_cast<float>(accumulate ? static_cast<double>(*sum) + total : total);
  }
}

__global__ void clip_kernel(const float* squared, float max_norm, float* norm, float* scale,
                            StepState* state) {
  const float length = sqrtf(*squared) / state->loss_scale;
  const float coefficient = max_norm / (length + 1e-6F);
  const float clip = max_norm <= 0.0F || coefficient > 1.0F ? 1.0F : coefficient;
  const bool finite = isfinite(length);
  *norm = length;
  *scale = finite && !state->stopped ? clip / state->loss_scale : kNan;
  state->count(finite);
}

}  // namespace

void squared_norm(Stream& stream, const float* x, int64_t n, float* sum, bool accumulate) {
  check_extents("squared_norm", {n});
  const int64_t count = ceil_div(n, kBlock);
  auto* partials = static_cast<double*>(
      cuda_stream(stream).scratch(count * static_cast<int64_t>(sizeof(double))));
  launch(stream, squares_kernel, grid_of(count), kThreads, x, n, partials);
  launch(stream, total_kernel, 1, kThreads, partials, count, sum, accumulate);
}

void clip_scale(Stream& stream, const float* squared, float max_norm, float* norm, float* scale,
                StepState* state) {
  launch(stream, clip_kernel, 1, 1, squared, max_norm, norm, scale, state);
}

}  // namespace hidup::kernels
