#include "kernels/adam.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

constexpr AdamOptions kAdam = {0.9F, 0.999F, 1e-8F, 0.0F, false};
constexpr AdamOptions kAdamWithDecay = {0.9F, 0.99F, 1e-6F, 0.1F, false};
constexpr AdamOptions kAdamW = {0.8F, 0.95F, 1e-8F, 0.1F, true};

struct AdamReference {
  Doubles p;
  Doubles m;
  Doubles v;

  // One step as torch.optim.Adam and AdamW document it.
  void update(const Floats& gradient, double scale, double lr, double step,
              const AdamOptions& options) {
    const double beta1 = options.beta1;
    const double beta2 = options.beta2;
    const double decay = options.weight_decay;
    for (size_t i = 0; i < p.size(); ++i) {
      double g = static_cast<double>(gradient[i]) * scale;
      if (options.decoupled) {
        p[i] -= lr * decay * p[i];
      } else {
        g += decay * p[i];
      }
      m[i] = beta1 * m[i] + (1.0 - beta1) * g;
      v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
      const double m_hat = m[i] / (1.0 - std::pow(beta1, step));
      const double v_hat = v[i] / (1.0 - std::pow(beta2, step));
      p[i] -= lr * m_hat / (std::sqrt(v_hat) + static_cast<double>(options.epsilon));
    }
  }
};

TEST(Adam, FollowsTheDoubleReferenceForManySteps) {
  for (const AdamOptions& options : {kAdam, kAdamWithDecay, kAdamW}) {
    for (const int64_t n : {0, 1, 1037}) {
      const auto initial = random_floats("p", n);
      const Floats zeros(static_cast<size_t>(n), 0.0F);
      Output p(initial);
      Output m(zeros);
      Output v(zeros);
      AdamReference expected{to_doubles(initial), to_doubles(zeros), to_doubles(zeros)};
      for (int step = 1; step <= 20; ++step) {
        const OnDevice<StepState> state({.step = static_cast<uint64_t>(step),
                                         .learning_rate = 0.01F * static_cast<float>(step)});
        const OnDevice<float> scale(step % 2 == 0 ? 1.0F : 0.25F);
        const auto gradient = random_floats("g" + std::to_string(step), n);
        run([&](Stream& stream) {
          adam_update(stream, p.data(), gradient.data(), m.data(), v.data(), n, options,
                      state.get(), scale.get());
        });
        expected.update(gradient, static_cast<double>(*scale),
                        static_cast<double>(state->learning_rate), step, options);
        const double tolerance = 8.0 * kEpsilon * step;
        expect_close(m, expected.m, tolerance, "m");
        expect_close(v, expected.v, tolerance, "v");
        expect_close(p, expected.p, tolerance, "p");
      }
    }
  }
}

TEST(Adam, FirstStepMovesByTheLearningRate) {
  // With zero moments, m/sqrt(v) is the sign of the gradient, whatever its size.
  const Floats gradient = {1e-3F, -50.0F, 0.0F};
  const Floats zeros(3, 0.0F);
  const OnDevice<StepState> state({.step = 1, .learning_rate = 0.5F});
  const OnDevice<float> scale(1.0F);
  Output p(Floats(3, 1.0F));
  Output m(zeros);
  Output v(zeros);
  run([&](Stream& stream) {
    adam_update(stream, p.data(), gradient.data(), m.data(), v.data(), 3, kAdam, state.get(),
                scale.get());
  });
  EXPECT_NEAR(static_cast<double>(p[0]), 0.5, 1e-5);
  EXPECT_NEAR(static_cast<double>(p[1]), 1.5, 1e-5);
  EXPECT_EQ(p[2], 1.0F);
}

TEST(Adam, ReadsStepRateAndScaleWhenItRuns) {
  const Floats gradient(1, 1.0F);
  OnDevice<StepState> state({});
  OnDevice<float> scale(kNan);
  const StepState later = {.step = 1, .learning_rate = 0.25F};
  const float later_scale = 2.0F;
  Output p(Floats(1, 1.0F));
  Output m(Floats(1, 0.0F));
  Output v(Floats(1, 0.0F));
  run([&](Stream& stream) {
    stream.copy(state.get(), &later, sizeof(later));
    stream.copy(scale.get(), &later_scale, sizeof(later_scale));
    adam_update(stream, p.data(), gradient.data(), m.data(), v.data(), 1, kAdam, state.get(),
                scale.get());
  });
  EXPECT_NEAR(static_cast<double>(p[0]), 0.75, 1e-6);
  EXPECT_NEAR(static_cast<double>(m[0]), 0.2, 1e-6);
}

// With the flag, a scale that is not finite changes nothing; and the steps that were skipped do not
// count in the corrections.
TEST(Adam, SkipsAStepWhoseGradientsOverflow) {
  AdamOptions options = kAdamW;
  const Floats gradient = {1.0F, std::numeric_limits<float>::infinity()};
  const Floats finite = {1.0F, 2.0F};
  const auto run_step = [&](Output& p, Output& m, Output& v, const Floats& g, float factor,
                            const StepState& at) {
    const OnDevice<StepState> state(at);
    const OnDevice<float> scale(factor);
    run([&](Stream& stream) {
      adam_update(stream, p.data(), g.data(), m.data(), v.data(), 2, options, state.get(),
                  scale.get());
    });
  };
  Output p(Floats{1.0F, 2.0F});
  Output m(Floats{0.0F, 0.0F});
  Output v(Floats{0.0F, 0.0F});
  options.skips = true;
  run_step(p, m, v, gradient, kNan, {.step = 1, .learning_rate = 0.25F});
  EXPECT_EQ(p.values(), (Floats{1.0F, 2.0F}));
  EXPECT_EQ(m.values(), (Floats{0.0F, 0.0F}));
  EXPECT_EQ(v.values(), (Floats{0.0F, 0.0F}));
  run_step(p, m, v, finite, 0.5F, {.step = 2, .learning_rate = 0.25F, .skipped = 1});
  Output first_p(Floats{1.0F, 2.0F});
  Output first_m(Floats{0.0F, 0.0F});
  Output first_v(Floats{0.0F, 0.0F});
  run_step(first_p, first_m, first_v, finite, 0.5F, {.step = 1, .learning_rate = 0.25F});
  EXPECT_EQ(p.values(), first_p.values());
  EXPECT_NE(p[0], 1.0F);
  options.skips = false;
  run_step(p, m, v, finite, kNan, {.step = 3, .learning_rate = 0.25F});
  EXPECT_TRUE(std::isnan(p[0]));
}

TEST(Adam, HasTheSameBitsForAnyTeam) {
  const int64_t n = 100003;
  const auto initial = random_floats("p", n);
  const auto gradient = random_floats("g", n);
  const Floats zeros(static_cast<size_t>(n), 0.0F);
  const OnDevice<StepState> state({.step = 3, .learning_rate = 0.01F});
  const OnDevice<float> scale(0.5F);
  expect_same_bits([&](int threads) {
    Output p(initial);
    Output m(zeros);
    Output v(zeros);
    run(
        [&](Stream& stream) {
          adam_update(stream, p.data(), gradient.data(), m.data(), v.data(), n, kAdamW, state.get(),
                      scale.get());
        },
        threads);
    Floats all;
    append(all, p);
    append(all, m);
    append(all, v);
    return all;
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
