// Products of the backward pass with fused work, against separate kernels on floats, which other
// tests compare with double.
#include "kernels/activations.h"
#include "kernels/bias.h"
#include "kernels/matmul.h"
#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

template <typename Element>
class MatmulBackward : public ::testing::Test {
 protected:
  static Numbers<Element> some(const std::string& purpose, int64_t n) {
    return Numbers<Element>(random_floats(purpose, n));
  }

  // Operands and the result lie `shift` elements behind an aligned address, GELU's input
  // `input_shift`.
  static void expect_gelu(const MatmulShape& size, int64_t shift = 0, int64_t input_shift = 0) {
    const int64_t count = size.m * size.n;
    const auto a = some("a", size.m * size.k + shift);
    const auto b = some("b", size.k * size.n + shift);
    const auto x = some("x", count + input_shift);
    Output product(count);
    Output expected(count);
    GuardedOutput<Element> c(count + shift);
    run([&](Stream& s) {
      matmul(s, a.wide.data() + shift, b.wide.data() + shift, product.data(), size, false);
      gelu_backward(s, x.wide.data() + input_shift, product.data(), expected.data(), count);
      matmul_gelu_backward(s, a.narrow.data() + shift, b.narrow.data() + shift,
                           x.narrow.data() + input_shift, c.data() + shift, size);
    });
    const double slack = kEpsilon * (8.0 + 2.0 * static_cast<double>(size.k));
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto value = static_cast<double>(expected[i]);
      // The slope of gelu is below 1.13.
      const double bound =
          slack * (1.0 + std::abs(value)) +
          Stored<Element>::kRelative *
              (1.13 * std::abs(static_cast<double>(product[i])) + std::abs(value)) +
          Stored<Element>::kAbsolute;
      const float actual = c[i + static_cast<size_t>(shift)];
      ASSERT_TRUE(std::abs(static_cast<double>(actual) - value) <= bound)
          << "[" << i << "] is " << actual << ", expected " << value << " within " << bound;
    }
    for (size_t i = 0; i < static_cast<size_t>(shift); ++i) {
      EXPECT_TRUE(std::isnan(float{c[i]})) << "written before the output";
    }
  }

  static void expect_sums(const MatmulShape& size, Factor summed, bool accumulate,
                          int64_t shift = 0) {
    const auto a = some("a", size.k * size.lda() + shift);
    const auto b = some("b", size.k * size.ldb() + shift);
    const int64_t length = summed == Factor::a ? size.m : size.n;
    const Floats c0 = random_floats("c", size.m * size.n);
    const Floats sums0 = random_floats("sums", length);
    Output c(c0);
    Output sums(sums0);
    Output expected_c(c0);
    Output expected_sums(sums0);
    run([&](Stream& s) {
      matmul(s, a.narrow.data() + shift, b.narrow.data() + shift, expected_c.data(), size,
             accumulate);
      const bool of_a = summed == Factor::a;
      bias_backward(s, (of_a ? a : b).narrow.data() + shift, expected_sums.data(), size.k, length,
                    accumulate, of_a ? size.lda() : size.ldb());
      matmul_sums(s, a.narrow.data() + shift, b.narrow.data() + shift, c.data(), size, summed,
                  sums.data(), accumulate);
    });
    const double slack = kEpsilon * (8.0 + 2.0 * static_cast<double>(size.k));
    expect_close(c, to_doubles(expected_c.values()), slack, "c");
    // Addends are below 1.8.
    expect_close(sums, to_doubles(expected_sums.values()), slack * std::sqrt(3.0), "sums");
  }
};

using AllElements = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(MatmulBackward, AllElements);

// Sizes within one tile, across several with odd edges, with and without cuBLASLt epilogues, of
// long sums, and empty ones.
constexpr MatmulShape kSizes[] = {{1, 1, 1},     {3, 5, 7},       {16, 8, 24},   {130, 72, 40},
                                  {131, 67, 33}, {300, 260, 129}, {5, 16, 3001}, {0, 4, 3},
                                  {4, 0, 3},     {4, 3, 0},       {8, 16, 0},    {0, 0, 0}};

TYPED_TEST(MatmulBackward, GeluAgreesWithTheKernelsInTurn) {
  for (MatmulShape size : kSizes) {
    for (const bool transpose_b : {false, true}) {
      SCOPED_TRACE(::testing::Message() << size.m << "x" << size.n << "x" << size.k);
      size.transpose_b = transpose_b;
      TestFixture::expect_gelu(size);
    }
  }
}

TYPED_TEST(MatmulBackward, GeluTakesAnyAddress) {
  for (const int64_t shift : {0, 8, 2, 1}) {
    for (const int64_t input_shift : {0, 8, 1}) {
      SCOPED_TRACE(::testing::Message() << shift << " and " << input_shift);
      TestFixture::expect_gelu({24, 16, 8}, shift, input_shift);
    }
  }
}

TYPED_TEST(MatmulBackward, NanStaysNan) {
  const MatmulShape size{8, 16, 8};
  const Numbers<TypeParam> nothing(Floats(128, 0.0F));
  const Numbers<TypeParam> undefined(Floats(128, kNan));
  GuardedOutput<TypeParam> of_input(typename GuardedOutput<TypeParam>::Values(128));
  GuardedOutput<TypeParam> of_product(typename GuardedOutput<TypeParam>::Values(128));
  run([&](Stream& s) {
    matmul_gelu_backward(s, nothing.narrow.data(), nothing.narrow.data(), undefined.narrow.data(),
                         of_input.data(), size);
    matmul_gelu_backward(s, undefined.narrow.data(), nothing.narrow.data(), nothing.narrow.data(),
                         of_product.data(), size);
  });
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_TRUE(std::isnan(float{of_input[i]}));
    EXPECT_TRUE(std::isnan(float{of_product[i]}));
  }
}

TYPED_TEST(MatmulBackward, SumsAgreeWithTheKernelsInTurn) {
  for (MatmulShape size : kSizes) {
    size.transpose_a = true;
    for (const Factor summed : {Factor::a, Factor::b}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << size.m << "x" << size.n << "x" << size.k << " of "
                     << (summed == Factor::a ? "a" : "b") << (accumulate ? ", added" : ""));
        TestFixture::expect_sums(size, summed, accumulate);
        TestFixture::expect_sums(size, summed, accumulate, 1);
      }
    }
  }
}

TYPED_TEST(MatmulBackward, SumsAreOfRowsThatLieApart) {
  const MatmulShape size{
      .m = 24, .n = 40, .k = 33, .transpose_a = true, .a_stride = 64, .b_stride = 48};
  for (const Factor summed : {Factor::a, Factor::b}) {
    TestFixture::expect_sums(size, summed, false);
    TestFixture::expect_sums(size, summed, true);
  }
}

// 16 bits cannot hold the sum of 257 ones, the first part of a sum with a small rest.
TYPED_TEST(MatmulBackward, SumsAreNotRounded) {
  constexpr int64_t kRows = 257;
  const Numbers<TypeParam> a(Floats(8 * kRows, 1.0F));
  Output c(64);
  Output sums(8);
  run([&](Stream& s) {
    matmul_sums(s, a.narrow.data(), a.narrow.data(), c.data(),
                {.m = 8, .n = 8, .k = kRows, .transpose_a = true}, Factor::b, sums.data(), false);
  });
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(sums[i], 257.0F);
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
