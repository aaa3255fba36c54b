// Smooth activations: GELU and SiLU.
#include <numbers>

#include "kernel_test.h"
#include "kernels/activations.h"

namespace hidup::kernels::testing {
namespace {

struct Gelu {
  static constexpr auto forward = gelu_forward<float>;
  static constexpr auto backward = gelu_backward<float>;
  // Computes the header's first form, which the kernels do not use.
  static double reference(double x) {
    const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1.0 + std::tanh(u));
  }
};

struct Silu {
  static constexpr auto forward = silu_forward<float>;
  static constexpr auto backward = silu_backward<float>;
  static double reference(double x) { return x / (1.0 + std::exp(-x)); }
};

template <typename Kernel>
class Activation : public ::testing::Test {
 protected:
  static Doubles references(const Doubles& x) {
    Doubles y;
    for (const double value : x) {
      y.push_back(Kernel::reference(value));
    }
    return y;
  }
};
using Kernels = ::testing::Types<Gelu, Silu>;
TYPED_TEST_SUITE(Activation, Kernels);

// The largest scale makes the sigmoid 0 or 1.
constexpr double kScales[] = {0.02, 1.0, 6.0, 1000.0};

TYPED_TEST(Activation, ForwardAgreesWithDoubleAlsoInPlace) {
  for (const double scale : kScales) {
    for (const int64_t n : {0, 1, 1037, 20011}) {
      const auto x = random_floats("x", n, scale);
      Output y(n);
      Output in_place(x);
      run([&](Stream& stream) {
        TypeParam::forward(stream, x.data(), y.data(), n);
        TypeParam::forward(stream, in_place.data(), in_place.data(), n);
      });
      expect_close(y, this->references(to_doubles(x)), 8.0 * kEpsilon, "y");
      EXPECT_EQ(y.values(), in_place.values());
    }
  }
}

TYPED_TEST(Activation, BackwardAgreesWithDifferencesAlsoInPlace) {
  for (const double scale : kScales) {
    for (const int64_t n : {0, 1, 1037, 20011}) {
      const auto x = random_floats("x", n, scale);
      const auto dy = random_floats("dy", n);
      Output dx(n);
      Output in_place(dy);
      run([&](Stream& stream) {
        TypeParam::backward(stream, x.data(), dy.data(), dx.data(), n);
        TypeParam::backward(stream, x.data(), in_place.data(), in_place.data(), n);
      });
      constexpr double kStep = 1e-5;
      Doubles expected;
      for (size_t i = 0; i < x.size(); ++i) {
        const auto at = static_cast<double>(x[i]);
        const double slope =
            (TypeParam::reference(at + kStep) - TypeParam::reference(at - kStep)) / (2.0 * kStep);
        expected.push_back(static_cast<double>(dy[i]) * slope);
      }
      expect_close(dx, expected, 1e-6, "dx");
      EXPECT_EQ(dx.values(), in_place.values());
    }
  }
}

// Errors are relative to tiny results, too: GPT-2's weights start at 0.02.
TYPED_TEST(Activation, SmallValuesKeepTheirDigits) {
  Floats x;
  for (const float value : {1e-30F, 1e-12F, 1e-4F, 0.01F}) {
    x.push_back(value);
    x.push_back(-value);
  }
  Output y(static_cast<int64_t>(x.size()));
  run([&](Stream& stream) { TypeParam::forward(stream, x.data(), y.data(), 8); });
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(y[i]) / TypeParam::reference(static_cast<double>(x[i])), 1.0,
                8.0 * kEpsilon);
  }
}

TYPED_TEST(Activation, FarValuesAreTheirLimits) {
  const Floats x = {1e4F, -1e4F, 1e30F, -1e30F, 0.0F, kNan};
  const Floats ones(x.size(), 1.0F);
  Output y(6);
  Output dx(6);
  run([&](Stream& stream) {
    TypeParam::forward(stream, x.data(), y.data(), 6);
    TypeParam::backward(stream, x.data(), ones.data(), dx.data(), 6);
  });
  EXPECT_EQ(y[0], 1e4F);
  EXPECT_NEAR(y[1], 0.0F, 1e-30F);
  EXPECT_EQ(y[2], 1e30F);
  EXPECT_NEAR(y[3], 0.0F, 1e-30F);
  EXPECT_EQ(dx[0], 1.0F);
  EXPECT_NEAR(dx[1], 0.0F, 1e-30F);
  EXPECT_EQ(dx[2], 1.0F);
  EXPECT_NEAR(dx[3], 0.0F, 1e-30F);
  EXPECT_EQ(y[4], 0.0F);
  EXPECT_EQ(dx[4], 0.5F);
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_TRUE(std::isnan(dx[5]));
}

TYPED_TEST(Activation, HasTheSameBitsForAnyTeam) {
  const int64_t n = 20011;
  const auto x = random_floats("x", n, 2.0);
  const auto dy = random_floats("dy", n);
  expect_same_bits([&](int threads) {
    Output y(n);
    Output dx(n);
    run(
        [&](Stream& stream) {
          TypeParam::forward(stream, x.data(), y.data(), n);
          TypeParam::backward(stream, x.data(), dy.data(), dx.data(), n);
        },
        threads);
    return all_of(y, dx);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
