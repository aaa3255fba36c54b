#include "kernels/swiglu.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

Doubles gated(const Doubles& gate, const Doubles& up) {
  Doubles y;
  for (size_t i = 0; i < gate.size(); ++i) {
    y.push_back(gate[i] / (1.0 + std::exp(-gate[i])) * up[i]);
  }
  return y;
}

TEST(Swiglu, AgreesWithDoubleAndItsDifferences) {
  for (const int64_t n : {int64_t{1}, int64_t{1037}}) {
    const auto gate = random_floats("gate", n, 4.0);
    const auto up = random_floats("up", n);
    const auto dy = random_floats("dy", n);
    expect_same_bits([&](int threads) {
      Output y(n);
      Output dgate(dy);  // over dy
      Output dup(n);
      run(
          [&](Stream& stream) {
            swiglu_forward<float>(stream, gate.data(), up.data(), y.data(), n);
            swiglu_backward<float>(stream, {.gate = gate.data(),
                                            .up = up.data(),
                                            .dy = dgate.data(),
                                            .dgate = dgate.data(),
                                            .dup = dup.data(),
                                            .n = n});
          },
          threads);
      const Doubles wide[] = {to_doubles(gate), to_doubles(up), to_doubles(dy)};
      expect_close(y, gated(wide[0], wide[1]), 8.0 * kEpsilon, "y");
      expect_gradient([&](const Doubles& at) { return dot(gated(at, wide[1]), wide[2]); }, wide[0],
                      dgate, 1e-5, "dgate");
      expect_gradient([&](const Doubles& at) { return dot(gated(wide[0], at), wide[2]); }, wide[1],
                      dup, 1e-5, "dup");
      return all_of(y, dgate, dup);
    });
  }
}

TEST(Swiglu, LargeValuesNeitherOverflowNorVanish) {
  const Floats gate = {-1e30F, -200.0F, 200.0F, 1e30F, kNan};
  const Floats up(5, 2.0F);
  const Floats dy(5, 1.0F);
  Output y(5);
  Output dgate(5);
  Output dup(5);
  run([&](Stream& stream) {
    swiglu_forward<float>(stream, gate.data(), up.data(), y.data(), 5);
    swiglu_backward<float>(stream, {.gate = gate.data(),
                                    .up = up.data(),
                                    .dy = dy.data(),
                                    .dgate = dgate.data(),
                                    .dup = dup.data(),
                                    .n = 5});
  });
  const Floats expected = {0.0F, 0.0F, 400.0F, 2e30F};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(y[i]), static_cast<double>(expected[i]), 1e-30) << i;
    EXPECT_NEAR(static_cast<double>(dgate[i]), i < 2 ? 0.0 : 2.0, 1e-30) << i;
  }
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_TRUE(std::isnan(dgate[4]));
  EXPECT_TRUE(std::isnan(dup[4]));
}

}  // namespace
}  // namespace hidup::kernels::testing
