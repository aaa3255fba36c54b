// Products of 16 bits at sizes of several tiles and pieces; on CPUs by the CPU's bf16 instructions
// and as f32.
#include "kernels/arithmetic.h"
#include "kernels/expert_matmul.h"
#include "kernels/matmul.h"
#include "ways_of_halves.h"

namespace hidup::kernels::testing {
namespace {

template <typename Way>
class HalfProducts : public OnWay<Way> {};
TYPED_TEST_SUITE(HalfProducts, WaysOfHalves, );

// Several tiles and odd edges; tiles by rows and by columns; long sums; rows that are never copied.
constexpr MatmulShape kTiledSizes[] = {{300, 260, 129}, {700, 40, 300},  {40, 700, 300},
                                       {70, 50, 2100},  {260, 390, 600}, {9, 5, 5000},
                                       {33, 500, 17},   {1, 1, 1}};

// Returns the bound of Matmul.AgreesWithTheDoubleProduct for the same numbers as floats: products
// of two 16-bit numbers are exact in f32.
double slack_of_product(int64_t k) {
  return 2.0 * kEpsilon * (8.0 + 2.0 * static_cast<double>(k));
}

TYPED_TEST(HalfProducts, AgreeWithThoseOfFloats) {
  using Element = typename TypeParam::Element;
  for (const MatmulShape& size : kTiledSizes) {
    for (const int transposed : {0, 1, 2, 3}) {
      MatmulShape shape = size;
      shape.transpose_a = (transposed & 1) != 0;
      shape.transpose_b = (transposed & 2) != 0;
      shape.a_stride = shape.a_columns() + 3;
      shape.b_stride = shape.b_columns() + 5;
      SCOPED_TRACE(::testing::Message()
                   << size.m << "x" << size.n << "x" << size.k << " " << transposed);
      const Numbers<Element> a(random_floats("a", shape.a_rows() * shape.lda()));
      const Numbers<Element> b(random_floats("b", shape.b_rows() * shape.ldb()));
      const Floats before = random_floats("c", size.m * size.n);
      Results<float> sums(before);
      Results<Element> rounded(size.m * size.n);
      run([&](Stream& s) {
        matmul(s, a.narrow.data(), b.narrow.data(), sums.narrow.data(), shape, true);
        matmul(s, a.wide.data(), b.wide.data(), sums.wide.data(), shape, true);
        matmul(s, a.narrow.data(), b.narrow.data(), rounded.narrow.data(), shape, false);
        matmul(s, a.wide.data(), b.wide.data(), rounded.wide.data(), shape, false);
      });
      expect_close(sums.narrow, to_doubles(sums.wide.values()), slack_of_product(size.k), "sums");
      for (size_t i = 0; i < rounded.wide.size(); ++i) {
        const double wide = static_cast<double>(rounded.wide[i]);
        ASSERT_NEAR(static_cast<double>(float{rounded.narrow[i]}), wide,
                    Rounding<Element>::kRelative * (std::abs(wide) + slack_of_product(size.k)) +
                        slack_of_product(size.k))
            << "at " << i;
      }
    }
  }
}

TYPED_TEST(HalfProducts, HaveTheSameBitsForAnyTeam) {
  using Element = typename TypeParam::Element;
  for (const MatmulShape& size : {MatmulShape{300, 257, 65}, {70, 50, 5196, true, true}}) {
    const Numbers<Element> a(random_floats("a", size.m * size.k));
    const Numbers<Element> b(random_floats("b", size.k * size.n));
    expect_same_bits([&](int threads) {
      Output c(size.m * size.n);
      run([&](Stream& s) { matmul(s, a.narrow.data(), b.narrow.data(), c.data(), size, false); },
          threads);
      return c.values();
    });
  }
}

TYPED_TEST(HalfProducts, OfExpertsAgreeWithThoseOfFloats) {
  using Element = typename TypeParam::Element;
  const ExpertSize size = {.experts = 3, .batch = 4, .capacity = 90, .k = 70, .n = 210};
  const Ints counts = {90, 80, 0, 7, 0, 0, 0, 0, 1, 90, 90, 90};
  const int64_t rows = size.experts * size.batch * size.capacity;
  const auto rows_in_use = [&](const char* purpose, int64_t width) {
    Floats values = random_floats(purpose, rows * width);
    for (int64_t row = 0; row < rows; ++row) {
      if (row % size.capacity >= counts[static_cast<size_t>(row / size.capacity)]) {
        std::fill_n(values.begin() + row * width, width, 0.0F);
      }
    }
    return Numbers<Element>(values);
  };
  const Numbers<Element> x = rows_in_use("x", size.k);
  const Numbers<Element> dy = rows_in_use("dy", size.n);
  const Numbers<Element> w(random_floats("w", size.experts * size.k * size.n));
  GuardedOutput<Element> y(rows * size.n);
  GuardedOutput<Element> dx(rows * size.k);
  Output wide_y(rows * size.n);
  Output wide_dx(rows * size.k);
  Results<float> dw(size.experts * size.k * size.n);
  run([&](Stream& s) {
    expert_matmul(s, x.narrow.data(), w.narrow.data(), counts.data(), y.data(), size);
    expert_matmul(s, x.wide.data(), w.wide.data(), counts.data(), wide_y.data(), size);
    expert_matmul_backward_input(s, dy.narrow.data(), w.narrow.data(), counts.data(), dx.data(),
                                 size);
    expert_matmul_backward_input(s, dy.wide.data(), w.wide.data(), counts.data(), wide_dx.data(),
                                 size);
    expert_matmul_backward_weight<Element>(
        s, {x.narrow.data(), dy.narrow.data(), counts.data(), dw.narrow.data(), size, false});
    expert_matmul_backward_weight<float>(
        s, {x.wide.data(), dy.wide.data(), counts.data(), dw.wide.data(), size, false});
  });
  const auto expect_rounded = [&](const GuardedOutput<Element>& narrow, const Output& wide,
                                  double slack) {
    for (size_t i = 0; i < wide.size(); ++i) {
      const double value = static_cast<double>(wide[i]);
      ASSERT_NEAR(static_cast<double>(float{narrow[i]}), value,
                  Rounding<Element>::kRelative * (std::abs(value) + slack) + slack)
          << "at " << i;
    }
  };
  expect_rounded(y, wide_y, slack_of_product(size.k));
  expect_rounded(dx, wide_dx, slack_of_product(size.n));
  expect_close(dw.narrow, to_doubles(dw.wide.values()), slack_of_product(360), "dw");
}

TEST(Arithmetic, TakesInstructionsThatAreThere) {
  multiply_bf16_natively(true);
  EXPECT_EQ(bf16_is_native(), has_bf16_products());
  EXPECT_EQ(describe_arithmetic().ends_with("bf16 by f32"), !has_bf16_products());
  EXPECT_LE(bf16_products_are_faster(), has_bf16_products());
  multiply_bf16_natively(false);
}

}  // namespace
}  // namespace hidup::kernels::testing
