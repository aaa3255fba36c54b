#include "kernels/adam.h"
#include "kernels/cuda_math.h"

namespace hidup::kernels {
namespace {

// What all elements share in a step.
struct Factors {
  float step_size;
  float inverse_sqrt_correction2;
  float kept;  // of the parameter, by a decoupled decay
  float scale;
};

__device__ Factors factors_of(const AdamOptions& options, const StepState& state, float scale) {
  const auto step = static_cast<double>(state.step - state.skipped);
  const auto lr = static_cast<double>(state.learning_rate);
  const double correction1 = 1.0 - pow(static_cast<double>(options.beta1), step);
  const double correction2 = 1.0 - pow(static_cast<double>(options.beta2), step);
  const double shrink = options.decoupled ? lr * static_cast<double>(options.weight_decay) : 0.0;
  return {static_cast<float>(lr / correction1), static_cast<float>(1.0 / sqrt(correction2)),
          static_cast<float>(1.0 - shrink), scale};
}

__global__ void __launch_bounds__(kThreads)
    adam_kernel(float* parameter, const float* gradient, float* m, float* v, int64_t n,
                AdamOptions options, const StepState* state, const float* gradient_scale) {
  __shared__ Factors shared;
  if (threadIdx.x == 0) {
    shared = factors_of(options, *state, *gradient_scale);
  }
  __syncthreads();
  const Factors factors = shared;
  if (options.skips && !isfinite(factors.scale)) {
    return;
  }
  const float added_decay = options.decoupled ? 0.0F : options.weight_decay;
  for (int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    const float p = parameter[i];
    const float g = gradient[i] * factors.scale + added_decay * p;
    const float new_m = m[i] + (1.0F - options.beta1) * (g - m[i]);
    const float new_v = options.beta2 * v[i] + (1.0F - options.beta2) * g * g;
    const float denominator = sqrtf(new_v) * factors.inverse_sqrt_correction2 + options.epsilon;
    m[i] = new_m;
    v[i] = new_v;
    parameter[i] = p * factors.kept - factors.step_size * (new_m / denominator);
  }
}

}  // namespace

void adam_update(Stream& stream, float* parameter, const float* gradient, float* m, float* v,
                 int64_t n, AdamOptions options, const StepState* state,
                 const float* gradient_scale) {
  launch(stream, adam_kernel, blocks_for(n, 4 * kThreads), kThreads, parameter, gradient, m, v, n,
         options, state, gradient_scale);
}

}  // namespace hidup::kernels
