#include "kernels/norm.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

TEST(Norm, SumsSquaresInDouble) {
  for (const int64_t n : {0, 1, 31, 16384, 100003}) {
    const auto x = random_floats("x", n, 10.0);
    double expected = 0.0;
    for (const float value : x) {
      expected += static_cast<double>(value) * static_cast<double>(value);
    }
    Output sum(1);
    Output added(Floats{1000.0F});
    run([&](Stream& stream) {
      squared_norm(stream, x.data(), n, sum.data(), false);
      squared_norm(stream, x.data(), n, added.data(), true);
    });
    expect_close(sum, {expected}, 2.0 * kEpsilon, "sum");
    expect_close(added, {expected + 1000.0}, 2.0 * kEpsilon, "sum accumulated");
  }
}

TEST(Norm, HasTheSameBitsForAnyTeam) {
  const int64_t n = 100003;
  const auto x = random_floats("x", n);
  expect_same_bits([&](int threads) {
    Output sum(1);
    run([&](Stream& stream) { squared_norm(stream, x.data(), n, sum.data(), false); }, threads);
    return sum.values();
  });
}

std::pair<float, float> clip(float squared, float max_norm, float loss_scale = 1.0F) {
  Output norm(1);
  Output scale(1);
  const OnDevice<float> on_device(squared);
  OnDevice<StepState> state({.loss_scale = loss_scale});
  run([&](Stream& s) {
    clip_scale(s, on_device.get(), max_norm, norm.data(), scale.data(), state.get());
  });
  return {norm[0], scale[0]};
}

TEST(Norm, ClipsAsPyTorch) {
  const std::pair<float, float> clipped = clip(25.0F, 2.0F);
  EXPECT_EQ(clipped.first, 5.0F);
  EXPECT_FLOAT_EQ(clipped.second, 2.0F / (5.0F + 1e-6F));
  EXPECT_EQ(clip(25.0F, 6.0F).second, 1.0F);
  EXPECT_EQ(clip(0.0F, 1.0F).second, 1.0F);
  // PyTorch clamps the coefficient and does not compare the norm: here it is just under 1.
  EXPECT_LT(clip(1.0F, 1.0F).second, 1.0F);
  EXPECT_EQ(clip(25.0F, 0.0F).second, 1.0F);  // no clipping
  EXPECT_TRUE(std::isnan(clip(kNan, 1.0F).second));
}

TEST(Norm, IsThatOfTheLossWithoutItsScale) {
  const std::pair<float, float> clipped = clip(25.0F * 64.0F, 2.0F, 8.0F);
  EXPECT_EQ(clipped.first, 5.0F);
  EXPECT_FLOAT_EQ(clipped.second, 2.0F / (5.0F + 1e-6F) / 8.0F);
  EXPECT_EQ(clip(25.0F, 0.0F, 8.0F).second, 0.125F);
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(clip(kInfinite, 1.0F, 8.0F).first));
  EXPECT_TRUE(std::isnan(clip(kInfinite, 1.0F, 8.0F).second));
  EXPECT_TRUE(std::isnan(clip(kInfinite, 0.0F, 8.0F).second));
}

}  // namespace
}  // namespace hidup::kernels::testing
