// Backward passes of both norms, with another gradient of their input.
#include <gtest/gtest.h>

#include "norms.h"
#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

template <typename Element>
class NormBackwardAdded : public ::testing::Test {};
TYPED_TEST_SUITE(NormBackwardAdded, SixteenBits, );

// dx is the plain one plus `added`, rounded once; dgamma and dbeta are the plain ones. dx lies over
// dy, over `added` or apart; rows are odd, and near the lengths of a warp's and a block's vectors.
TYPED_TEST(NormBackwardAdded, IsInTheInputsGradientAlone) {
  enum class Place { own, dy, added };
  for (const bool centered : {true, false}) {
    for (const int64_t n : {5, 64, 768, 1032, 8200}) {
      const int64_t rows = 77;
      const Numbers<TypeParam> x(random_floats("x", rows * n, 2.0));
      const Numbers<TypeParam> gamma(random_floats("gamma", n));
      const Numbers<TypeParam> dy(random_floats("dy", rows * n));
      const Numbers<TypeParam> added(random_floats("added", rows * n));
      Output mean(random_floats("mean", rows));
      Output rstd(random_floats("rstd", rows, 0.1));
      Output alone(rows * n);
      Output dgamma(n);
      Output dbeta(n);
      run([&](Stream& s) {
        const Norm<float> norm{.rows = rows,
                               .n = n,
                               .x = x.wide.data(),
                               .gamma = gamma.wide.data(),
                               .mean = mean.data(),
                               .rstd = rstd.data(),
                               .dy = dy.wide.data(),
                               .dx = alone.data(),
                               .dgamma = dgamma.data(),
                               .dbeta = dbeta.data()};
        norm.centered(centered).backward(s);
      });
      for (const Place place : {Place::own, Place::dy, Place::added}) {
        SCOPED_TRACE(::testing::Message()
                     << (centered ? "layer norm" : "RMS norm") << " of rows of " << n << ", place "
                     << static_cast<int>(place));
        Results<TypeParam> dx = place == Place::own  ? Results<TypeParam>(rows * n)
                                : place == Place::dy ? Results<TypeParam>(dy)
                                                     : Results<TypeParam>(added);
        Output dgamma_too(n);
        Output dbeta_too(n);
        run_both([&](Stream& s, auto of) {
          using Element = Pointee<decltype(of(x))>;
          const Norm<Element> norm{.rows = rows,
                                   .n = n,
                                   .x = of(x),
                                   .gamma = of(gamma),
                                   .mean = mean.data(),
                                   .rstd = rstd.data(),
                                   .dy = place == Place::dy ? of(dx) : of(dy),
                                   .added = place == Place::added ? of(dx) : of(added),
                                   .dx = of(dx),
                                   .dgamma = dgamma_too.data(),
                                   .dbeta = dbeta_too.data()};
          norm.centered(centered).backward(s);
        });
        for (size_t i = 0; i < dx.wide.size(); ++i) {
          const double sum = static_cast<double>(alone[i]) + static_cast<double>(added.wide[i]);
          const double of_floats = 8.0 * kEpsilon * (1.0 + std::abs(sum));
          ASSERT_NEAR(dx.wide[i], sum, of_floats) << i;
          ASSERT_NEAR(float{dx.narrow[i]}, sum,
                      of_floats + Rounding<TypeParam>::kRelative * std::abs(sum) +
                          Rounding<TypeParam>::kAbsolute)
              << i;
        }
        EXPECT_EQ(dgamma_too.values(), dgamma.values());
        if (centered) {
          EXPECT_EQ(dbeta_too.values(), dbeta.values());
        }
      }
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
