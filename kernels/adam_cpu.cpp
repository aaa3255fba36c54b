#include "kernels/adam.h"

#include <cmath>

namespace hidup::kernels {

void adam_update(Stream& stream, float* parameter, const float* gradient, float* m, float* v,
                 int64_t n, AdamOptions options, const StepState* state,
                 const float* gradient_scale) {
  stream.enqueue([=] {
    const float scale = *gradient_scale;
    if (options.skips && !std::isfinite(scale)) {
      return;
    }
    const auto step = static_cast<double>(state->step - state->skipped);
    const double lr = state->learning_rate;
    const double correction1 = 1.0 - std::pow(static_cast<double>(options.beta1), step);
    const double correction2 = 1.0 - std::pow(static_cast<double>(options.beta2), step);
    const auto step_size = static_cast<float>(lr / correction1);
    const auto inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
    const float added_decay = options.decoupled ? 0.0F : options.weight_decay;
    const double shrink = options.decoupled ? lr * static_cast<double>(options.weight_decay) : 0.0;
    const auto kept = static_cast<float>(1.0 - shrink);
    const float rest1 = 1.0F - options.beta1;
    const float rest2 = 1.0F - options.beta2;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; ++i) {
      const float g = gradient[i] * scale + added_decay * parameter[i];
      m[i] += rest1 * (g - m[i]);
      v[i] = options.beta2 * v[i] + rest2 * g * g;
      const float denominator = std::sqrt(v[i]) * inverse_sqrt_correction2 + options.epsilon;
      parameter[i] = parameter[i] * kept - step_size * (m[i] / denominator);
    }
  });
}

}  // namespace hidup::kernels
