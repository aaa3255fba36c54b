// Products of 16 bits at sizes of several tiles and pieces; on CPUs by the CPU's bf16 instructions
// and as f32.
#include <numeric>

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

// Rows of experts in slots and packed; whole vectors and odd edges; several tiles and pieces.
constexpr ExpertSize kExpertSizes[] = {
    {.experts = 3, .batch = 4, .capacity = 90, .k = 70, .n = 210},
    {.experts = 3, .batch = 4, .capacity = 90, .k = 70, .n = 210, .packed = true, .rows = 460},
    {.experts = 3, .batch = 4, .capacity = 90, .k = 136, .n = 264, .packed = true, .rows = 448},
    {.experts = 3, .batch = 4, .capacity = 90, .k = 264, .n = 8, .packed = true, .rows = 512}};

TYPED_TEST(HalfProducts, OfExpertsAgreeWithThoseOfFloats) {
  using Element = typename TypeParam::Element;
  const Ints counts = {90, 80, 0, 7, 0, 0, 0, 0, 1, 90, 90, 90};
  const int64_t used = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (const ExpertSize& size : kExpertSizes) {
    SCOPED_TRACE(::testing::Message() << size.k << " " << size.n << " " << size.packed);
    const int64_t rows = size.packed ? size.rows : size.experts * size.batch * size.capacity;
    const auto in_use = [&](int64_t row) {
      return size.packed ? row < used
                         : row % size.capacity < counts[static_cast<size_t>(row / size.capacity)];
    };
    const auto rows_in_use = [&](const char* purpose, int64_t width) {
      Floats values = random_floats(purpose, rows * width);
      for (int64_t row = 0; row < rows; ++row) {
        if (!in_use(row)) {
          std::fill_n(values.begin() + row * width, width, size.packed ? kNan : 0.0F);
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
    const int64_t weights = size.experts * size.k * size.n;
    auto dw = size.packed ? Results<float>(random_floats("dw", weights)) : Results<float>(weights);
    run([&](Stream& s) {
      expert_matmul(s, x.narrow.data(), w.narrow.data(), counts.data(), y.data(), size);
      expert_matmul(s, x.wide.data(), w.wide.data(), counts.data(), wide_y.data(), size);
      expert_matmul_backward_input(s, dy.narrow.data(), w.narrow.data(), counts.data(), dx.data(),
                                   size);
      expert_matmul_backward_input(s, dy.wide.data(), w.wide.data(), counts.data(), wide_dx.data(),
                                   size);
      expert_matmul_backward_weight<Element>(s, {x.narrow.data(), dy.narrow.data(), counts.data(),
                                                 dw.narrow.data(), size, size.packed});
      expert_matmul_backward_weight<float>(
          s, {x.wide.data(), dy.wide.data(), counts.data(), dw.wide.data(), size, size.packed});
    });
    const auto expect_rounded = [&](const GuardedOutput<Element>& narrow, const Output& wide,
                                    int64_t width, double slack) {
      for (size_t i = 0; i < wide.size(); ++i) {
        const double value = static_cast<double>(wide[i]);
        const double found = static_cast<double>(float{narrow[i]});
        if (size.packed && !in_use(static_cast<int64_t>(i) / width)) {
          ASSERT_TRUE(std::isnan(value) && std::isnan(found)) << "written at " << i;
          continue;
        }
        ASSERT_NEAR(found, value, Rounding<Element>::kRelative * (std::abs(value) + slack) + slack)
            << "at " << i;
      }
    };
    expect_rounded(y, wide_y, size.n, slack_of_product(size.k));
    expect_rounded(dx, wide_dx, size.k, slack_of_product(size.n));
    expect_close(dw.narrow, to_doubles(dw.wide.values()), slack_of_product(360), "dw");
  }
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
