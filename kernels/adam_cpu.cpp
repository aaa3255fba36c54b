#include "kernels/adam.h"

#include <cmath>

#include "kernels/cpu_team.h"
#include "kernels/preconditions.h"

namespace hidup::kernels {
namespace {

// Factors that all elements share in a step.
struct Factors {
  float step_size;
  float inverse_sqrt_correction2;
  float scale;
};

Factors factors_of(const AdamOptions& options, const StepState& state, float scale) {
  const auto step = static_cast<double>(state.step - state.skipped);
  const double correction1 = 1.0 - std::pow(static_cast<double>(options.beta1), step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(options.beta2), step);
  return {static_cast<float>(static_cast<double>(state.learning_rate) / correction1),
          static_cast<float>(1.0 / std::sqrt(correction2)), scale};
}

// Updates in one pass over memory; with kRounds it writes `rounded`, too.
template <bool kRounds, typename Element>
void update(const AdamPart<Element>& part, const AdamOptions& options, const Factors& factors,
            double lr) {
  float* const parameter = part.parameter;
  const float* const gradient = part.gradient;
  float* const m = part.m;
  float* const v = part.v;
  Element* const rounded = part.rounded;
  const float weight_decay = part.decays ? options.weight_decay : 0.0F;
  const float added_decay = options.decoupled ? 0.0F : weight_decay;
  const double shrink = options.decoupled ? lr * static_cast<double>(weight_decay) : 0.0;
  const auto kept = static_cast<float>(1.0 - shrink);
  const float rest1 = 1.0F - options.beta1;
  const float rest2 = 1.0F - options.beta2;
  for_each_element(part.n, [=](int64_t i) {
    const float g = gradient[i] * factors.scale + added_decay * parameter[i];
    m[i] += rest1 * (g - m[i]);
    v[i] = options.beta2 * v[i] + rest2 * g * g;
    const float denominator = std::sqrt(v[i]) * factors.inverse_sqrt_correction2 + options.epsilon;
    const float updated = parameter[i] * kept - factors.step_size * (m[i] / denominator);
    parameter[i] = updated;
    if constexpr (kRounds) {
      rounded[i] = updated;
    }
  });
}

template <typename Element>
void round(const AdamPart<Element>& part) {
  for_each_element(part.n, [=](int64_t i) { part.rounded[i] = part.parameter[i]; });
}

}  // namespace

template <typename Element>
void adam_update(Stream& stream, std::span<const AdamPart<Element>> parts,
                 const AdamOptions& options, const StepState* state, const float* gradient_scale) {
  for (const AdamPart<Element>& part : parts) {
    check_extents("adam", {part.n});
  }
  stream.enqueue([=] {
    const float scale = *gradient_scale;
    const bool changes = std::isfinite(scale);
    const Factors factors = factors_of(options, *state, scale);
    for (const AdamPart<Element>& part : parts) {
      const auto lr = static_cast<double>(state->learning_rate);
      if (changes && part.rounded != nullptr) {
        update<true>(part, options, factors, lr);
      } else if (changes) {
        update<false>(part, options, factors, lr);
      } else if (part.rounded != nullptr) {
        round(part);
      }
    }
  });
}

HIDUP_INSTANTIATE(adam_update);

}  // namespace hidup::kernels
