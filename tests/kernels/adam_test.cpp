#include "kernels/adam.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

constexpr AdamOptions kAdam = {0.9F, 0.999F, 1e-8F, 0.0F, false};
constexpr AdamOptions kAdamWithDecay = {0.9F, 0.99F, 1e-6F, 0.1F, false};
constexpr AdamOptions kAdamW = {0.8F, 0.95F, 1e-8F, 0.1F, true};

struct AdamReference {
  Doubles p;
  Doubles m;
  Doubles v;

  // Takes one step as torch.optim.Adam and AdamW document it.
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

// A parameter on the device and its moments.
struct Trained {
  explicit Trained(const Floats& initial)
      : p(initial), m(Floats(initial.size(), 0.0F)), v(Floats(initial.size(), 0.0F)) {}
  AdamPart<float> with(const Floats& gradient, bool decays = true) {
    const auto n = static_cast<int64_t>(p.size());
    return {p.data(), gradient.data(), m.data(), v.data(), n, decays};
  }
  Output p, m, v;
};

template <typename Element>
void update_parts(const std::vector<AdamPart<Element>>& parts, const AdamOptions& options,
                  const StepState& state, float scale, int threads = 1) {
  const OnDevice<StepState> state_there(state);
  const OnDevice<float> scale_there(scale);
  run(
      [&](Stream& stream) {
        adam_update<Element>(stream, parts, options, state_there.get(), scale_there.get());
      },
      threads);
}

void update_all(const std::vector<AdamPart<float>>& parts, const AdamOptions& options,
                const StepState& state, float scale, int threads = 1) {
  update_parts(parts, options, state, scale, threads);
}

void expect_near(const Trained& seen, const AdamReference& expected, double tolerance) {
  expect_close(seen.m, expected.m, tolerance, "m");
  expect_close(seen.v, expected.v, tolerance, "v");
  expect_close(seen.p, expected.p, tolerance, "p");
}

TEST(Adam, FollowsTheDoubleReferenceForManySteps) {
  for (const AdamOptions& options : {kAdam, kAdamWithDecay, kAdamW}) {
    for (const int64_t n : {0, 1, 1037}) {
      const auto initial = random_floats("p", n);
      Trained trained(initial);
      const Doubles zeros(static_cast<size_t>(n), 0.0);
      AdamReference expected{to_doubles(initial), zeros, zeros};
      for (int step = 1; step <= 20; ++step) {
        const float lr = 0.01F * static_cast<float>(step);
        const float scale = step % 2 == 0 ? 1.0F : 0.25F;
        const auto gradient = random_floats("g" + std::to_string(step), n);
        update_all({trained.with(gradient)}, options,
                   {.step = static_cast<uint64_t>(step), .learning_rate = lr}, scale);
        expected.update(gradient, static_cast<double>(scale), static_cast<double>(lr), step,
                        options);
        expect_near(trained, expected, 8.0 * kEpsilon * step);
      }
    }
  }
}

// There are more parts than a launch takes, empty and odd ones, with and without decay.
TEST(Adam, UpdatesManyParts) {
  for (const AdamOptions& options : {kAdamWithDecay, kAdamW}) {
    std::vector<std::unique_ptr<Trained>> trained;
    std::vector<Floats> gradients;
    std::vector<AdamReference> expected;
    for (int64_t i = 0; i < 150; ++i) {
      const int64_t n = i % 7 == 3 ? 0 : i % 50 == 20 ? 5000 + i : 1 + 37 * i % 1100;
      const auto initial = random_floats("p" + std::to_string(i), n);
      // Gradients are far from zero, where the first step's direction changes.
      Floats gradient = random_floats("g" + std::to_string(i), n);
      std::ranges::transform(gradient, gradient.begin(), [](float g) { return 2.0F + g; });
      gradients.push_back(gradient);
      trained.push_back(std::make_unique<Trained>(initial));
      const Doubles zeros(static_cast<size_t>(n), 0.0);
      expected.push_back({to_doubles(initial), zeros, zeros});
    }
    std::vector<AdamPart<float>> parts;
    for (size_t i = 0; i < trained.size(); ++i) {
      const bool decays = i % 3 != 0;
      parts.push_back(trained[i]->with(gradients[i], decays));
      AdamOptions of_part = options;
      of_part.weight_decay = decays ? options.weight_decay : 0.0F;
      expected[i].update(gradients[i], 0.5, 0.25, 1, of_part);
    }
    update_all(parts, options, {.step = 1, .learning_rate = 0.25F}, 0.5F);
    for (size_t i = 0; i < trained.size(); ++i) {
      expect_near(*trained[i], expected[i], 8.0 * kEpsilon);
    }
  }
}

// Lengths are near those of vectors and of a block's piece, at all addresses between two vectors.
TEST(Adam, PartsMayLieAtAnyAddress) {
  constexpr float kBeside = 7.0F;
  for (const int64_t n : {1, 3, 4, 5, 1023, 1024, 1025, 1028, 3001}) {
    const auto initial = random_floats("p", n);
    Floats gradient = random_floats("g", n);
    std::ranges::transform(gradient, gradient.begin(), [](float g) { return 2.0F + g; });
    const Floats zeros(static_cast<size_t>(n), 0.0F);
    AdamReference expected{to_doubles(initial), to_doubles(zeros), to_doubles(zeros)};
    expected.update(gradient, 0.5, 0.25, 1, kAdamW);
    for (const int64_t at : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << n << " from " << at);
      const auto moved = [&](const Floats& values) {
        Floats all(values.size() + 3, kBeside);
        std::ranges::copy(values, all.begin() + at);
        return all;
      };
      const auto back = [&](const Output& found) {
        const Floats all = found.values();
        for (size_t i = 0; i < all.size(); ++i) {
          const auto from = static_cast<int64_t>(i) - at;
          EXPECT_TRUE((from >= 0 && from < n) || all[i] == kBeside) << i;
        }
        return Floats(all.begin() + at, all.begin() + at + n);
      };
      const Floats g = moved(gradient);
      Output p(moved(initial));
      Output m(moved(zeros));
      Output v(moved(zeros));
      update_all({{p.data() + at, g.data() + at, m.data() + at, v.data() + at, n, true}}, kAdamW,
                 {.step = 1, .learning_rate = 0.25F}, 0.5F);
      expect_close(back(p), expected.p, 8.0 * kEpsilon, "p");
      expect_close(back(m), expected.m, 8.0 * kEpsilon, "m");
      expect_close(back(v), expected.v, 8.0 * kEpsilon, "v");
    }
  }
}

template <typename Element>
class AdamIn16Bits : public ::testing::Test {};
TYPED_TEST_SUITE(AdamIn16Bits, SixteenBits);

// The updated parameters are rounded, even after a step that changes none.
TYPED_TEST(AdamIn16Bits, RoundsWhereItIsAskedTo) {
  for (const int64_t n : {1, 4, 1027, 2048}) {
    for (const float scale : {0.5F, kNan}) {
      SCOPED_TRACE(::testing::Message() << n << ", scale " << scale);
      const auto initial = random_floats("p", n);
      const auto gradient = random_floats("g", n);
      Trained plain(initial);
      update_all({plain.with(gradient)}, kAdamW, {.step = 1, .learning_rate = 0.25F}, scale);
      Trained aligned(initial);
      Trained moved(initial);
      Trained not_asked(initial);
      GuardedOutput<TypeParam> rounded(n);
      GuardedOutput<TypeParam> rounded_behind(n + 1);
      const auto part = [&](Trained& of, TypeParam* to) {
        return AdamPart<TypeParam>{of.p.data(), gradient.data(), of.m.data(), of.v.data(), n, true,
                                   to};
      };
      update_parts<TypeParam>({part(aligned, rounded.data()),
                               part(moved, rounded_behind.data() + 1), part(not_asked, nullptr)},
                              kAdamW, {.step = 1, .learning_rate = 0.25F}, scale);
      EXPECT_TRUE(std::isnan(float{rounded_behind[0]}));
      for (size_t i = 0; i < plain.p.size(); ++i) {
        const float expected{TypeParam(plain.p[i])};
        ASSERT_EQ(float{rounded[i]}, expected) << i;
        ASSERT_EQ(float{rounded_behind[i + 1]}, expected) << i;
      }
      for (const Trained* of : {&aligned, &moved, &not_asked}) {
        EXPECT_EQ(of->p.values(), plain.p.values());
        EXPECT_EQ(of->m.values(), plain.m.values());
        EXPECT_EQ(of->v.values(), plain.v.values());
      }
    }
  }
}

TEST(Adam, FirstStepMovesByTheLearningRate) {
  // After zero moments, m/sqrt(v) is the sign of the gradient, whatever its size.
  const Floats gradient = {1e-3F, -50.0F, 0.0F};
  Trained trained(Floats(3, 1.0F));
  update_all({trained.with(gradient)}, kAdam, {.step = 1, .learning_rate = 0.5F}, 1.0F);
  EXPECT_NEAR(static_cast<double>(trained.p[0]), 0.5, 1e-5);
  EXPECT_NEAR(static_cast<double>(trained.p[1]), 1.5, 1e-5);
  EXPECT_EQ(trained.p[2], 1.0F);
}

TEST(Adam, ReadsStepRateAndScaleWhenItRuns) {
  const Floats gradient(1, 1.0F);
  OnDevice<StepState> state({});
  OnDevice<float> scale(kNan);
  const StepState later = {.step = 1, .learning_rate = 0.25F};
  const float later_scale = 2.0F;
  Trained trained(Floats(1, 1.0F));
  const std::vector<AdamPart<float>> parts = {trained.with(gradient)};
  run([&](Stream& stream) {
    stream.copy(state.get(), &later, sizeof(later));
    stream.copy(scale.get(), &later_scale, sizeof(later_scale));
    adam_update<float>(stream, parts, kAdam, state.get(), scale.get());
  });
  EXPECT_NEAR(static_cast<double>(trained.p[0]), 0.75, 1e-6);
  EXPECT_NEAR(static_cast<double>(trained.m[0]), 0.2, 1e-6);
}

// A scale that is not finite changes nothing, and skipped steps do not count in the corrections.
TEST(Adam, SkipsAStepWhoseGradientsOverflow) {
  const Floats gradient = {1.0F, std::numeric_limits<float>::infinity()};
  const Floats finite = {1.0F, 2.0F};
  Trained trained(Floats{1.0F, 2.0F});
  update_all({trained.with(gradient)}, kAdamW, {.step = 1, .learning_rate = 0.25F}, kNan);
  EXPECT_EQ(trained.p.values(), (Floats{1.0F, 2.0F}));
  EXPECT_EQ(trained.m.values(), (Floats{0.0F, 0.0F}));
  EXPECT_EQ(trained.v.values(), (Floats{0.0F, 0.0F}));
  update_all({trained.with(finite)}, kAdamW, {.step = 2, .learning_rate = 0.25F, .skipped = 1},
             0.5F);
  Trained first(Floats{1.0F, 2.0F});
  update_all({first.with(finite)}, kAdamW, {.step = 1, .learning_rate = 0.25F}, 0.5F);
  EXPECT_EQ(trained.p.values(), first.p.values());
  EXPECT_NE(trained.p[0], 1.0F);
}

TEST(Adam, HasTheSameBitsForAnyTeam) {
  const int64_t n = 100003;
  const auto initial = random_floats("p", n);
  const auto gradient = random_floats("g", n);
  expect_same_bits([&](int threads) {
    Trained trained(initial);
    update_all({trained.with(gradient)}, kAdamW, {.step = 3, .learning_rate = 0.01F}, 0.5F,
               threads);
    return all_of(trained.p, trained.m, trained.v);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
