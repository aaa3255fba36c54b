// The fused product with bias and activation, against three separate kernels on floats, which other
// tests compare with double.
#include "kernel_test.h"
#include "kernels/activations.h"
#include "kernels/bias.h"
#include "kernels/matmul.h"
#include "product_shapes.h"
#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

constexpr Activation kActivations[] = {Activation::none, Activation::relu, Activation::gelu};

struct Case {
  MatmulShape size;
  Activation activation;
  // Elements by which a, b and y, the bias, and gelu's input lie behind an aligned address.
  int64_t shift = 0;
  int64_t bias_shift = 0;
  int64_t input_shift = 0;
};

// Results of the separate kernels: the product, the biased product, and the activation.
struct Steps {
  explicit Steps(int64_t n) : product(n), biased(n), y(n) {}
  Output product, biased, y;
};

void run_in_turn(const Case& c, const float* a, const float* b, const float* bias, Steps& steps) {
  const int64_t m = c.size.m;
  const int64_t n = c.size.n;
  run([&](Stream& s) {
    matmul(s, a, b, steps.product.data(), c.size, false);
    bias_forward(s, steps.product.data(), bias, steps.biased.data(), m, n);
    if (c.activation == Activation::gelu) {
      gelu_forward(s, steps.biased.data(), steps.y.data(), m * n);
    } else if (c.activation == Activation::relu) {
      relu_forward(s, steps.biased.data(), steps.y.data(), m * n);
    }
  });
}

// Checks that values differ by roundings at most, be it one, or one each of product, sum and
// activation, and by the effect of the sums' orders.
template <typename Element>
void expect_near(GuardedOutput<Element>& found, int64_t shift, const Case& c, const Steps& steps,
                 const Output& expected) {
  const double slack = kEpsilon * (8.0 + 2.0 * static_cast<double>(c.size.k));
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto value = static_cast<double>(expected[i]);
    const double stored = std::abs(static_cast<double>(steps.product[i])) +
                          std::abs(static_cast<double>(steps.biased[i]));
    // The slope of gelu is below 1.13.
    const double bound = slack * (1.0 + std::abs(value)) +
                         Stored<Element>::kRelative * (1.13 * stored + std::abs(value)) +
                         Stored<Element>::kAbsolute;
    const float actual = found[i + static_cast<size_t>(shift)];
    ASSERT_TRUE(std::abs(static_cast<double>(actual) - value) <= bound)
        << "[" << i << "] is " << actual << ", expected " << value << " within " << bound;
  }
  for (size_t i = 0; i < static_cast<size_t>(shift); ++i) {
    EXPECT_TRUE(std::isnan(float{found[i]})) << "written before the output";
  }
}

template <typename Element>
class MatmulBias : public ::testing::Test {
 protected:
  static Numbers<Element> some(const std::string& purpose, int64_t n) {
    return Numbers<Element>(random_floats(purpose, n));
  }

  static void expect_all(const Case& c) {
    const int64_t m = c.size.m;
    const int64_t n = c.size.n;
    const int64_t k = c.size.k;
    const auto a = some("a", m * k + c.shift);
    const auto b = some("b", k * n + c.shift);
    const auto bias = some("bias", n + c.bias_shift);
    Steps steps(m * n);
    run_in_turn(c, a.wide.data() + c.shift, b.wide.data() + c.shift,
                bias.wide.data() + c.bias_shift, steps);
    GuardedOutput<Element> y(m * n + c.shift);
    GuardedOutput<Element> input(m * n + c.input_shift);
    Epilogue<Element> epilogue{.bias = bias.narrow.data() + c.bias_shift,
                               .activation = c.activation};
    if (c.activation == Activation::gelu) {
      epilogue.input = input.data() + c.input_shift;
    }
    run([&](Stream& s) {
      matmul_bias(s, a.narrow.data() + c.shift, b.narrow.data() + c.shift, y.data() + c.shift,
                  c.size, epilogue);
    });
    expect_near(y, c.shift, c, steps, c.activation == Activation::none ? steps.biased : steps.y);
    if (c.activation == Activation::gelu) {
      expect_near(input, c.input_shift, c, steps, steps.biased);
    }
  }
};

using AllElements = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(MatmulBias, AllElements);

TYPED_TEST(MatmulBias, AgreesWithTheKernelsInTurn) {
  // Further sizes have cuBLASLt epilogues or lack them, or have long sums.
  for (const MatmulShape size :
       product_shapes({{16, 8, 24}, {130, 72, 40}, {131, 67, 33}, {5, 16, 3001}, {8, 16, 0}})) {
    for (const bool transpose_b : {false, true}) {
      for (const Activation activation : kActivations) {
        SCOPED_TRACE(::testing::Message()
                     << size.m << "x" << size.n << "x" << size.k << " " << transpose_b
                     << " activation " << static_cast<int>(activation));
        TestFixture::expect_all({{size.m, size.n, size.k, false, transpose_b}, activation});
      }
    }
  }
}

// Earlier calls with better addresses may have made cuBLASLt choose another algorithm.
TYPED_TEST(MatmulBias, TakesAnyAddress) {
  for (const Activation activation : kActivations) {
    for (const int64_t shift : {0, 8, 2, 1}) {
      for (const int64_t bias_shift : {0, 8, 1}) {
        for (const int64_t input_shift : {0, 8, 1}) {
          SCOPED_TRACE(::testing::Message()
                       << "shifts " << shift << ", " << bias_shift << " and " << input_shift
                       << " activation " << static_cast<int>(activation));
          TestFixture::expect_all({{24, 16, 8}, activation, shift, bias_shift, input_shift});
        }
      }
    }
  }
}

// 16 bits cannot hold 2993, so a rounded sum of 2993 - 2992 is 0. CUDA rounds it where cuBLASLt has
// no such epilogue, which it should have for these sizes.
TYPED_TEST(MatmulBias, IsRoundedAtTheEnd) {
  const MatmulShape size{16, 16, 16};
  Floats ones(256, 0.0F);
  Floats columns(256, 0.0F);
  for (size_t i = 0; i < 16; ++i) {
    ones[16 * i] = ones[16 * i + 1] = ones[16 * i + 2] = 1.0F;
    columns[i] = 2048.0F;
    columns[16 + i] = 944.0F;
    columns[32 + i] = 1.0F;
  }
  const Numbers<TypeParam> a(ones);
  const Numbers<TypeParam> b(columns);
  const Numbers<TypeParam> bias(Floats(16, -2992.0F));
  ASSERT_EQ(float{b.narrow[16]} + float{b.narrow[0]}, -float{bias.narrow[0]});
  for (const Activation activation : kActivations) {
    const typename GuardedOutput<TypeParam>::Values zeros(256, TypeParam(0.0F));
    GuardedOutput<TypeParam> y(zeros);
    GuardedOutput<TypeParam> input(zeros);
    const bool gelu = activation == Activation::gelu;
    run([&](Stream& s) {
      matmul_bias(s, a.narrow.data(), b.narrow.data(), y.data(), size,
                  {.bias = bias.narrow.data(),
                   .activation = activation,
                   .input = gelu ? input.data() : nullptr});
    });
    for (size_t i = 0; i < 256; ++i) {
      EXPECT_NEAR(float{y[i]}, gelu ? 0.8412F : 1.0F, 0.004F);
      EXPECT_EQ(float{input[i]}, gelu ? 1.0F : 0.0F);
    }
  }
}

// 16 bits cannot hold 1 plus this bit, but its GELU rounds to another number than that of 1.
TYPED_TEST(MatmulBias, GeluIsOfWhatWasNotRounded) {
  const MatmulShape size{16, 16, 16};
  const float bit = std::is_same_v<TypeParam, BFloat16> ? 15.0F * 0x1p-12F : 15.0F * 0x1p-15F;
  Floats rows(256, 0.0F);
  Floats columns(256, 0.0F);
  for (size_t i = 0; i < 16; ++i) {
    rows[16 * i] = rows[16 * i + 1] = 1.0F;
    columns[i] = 1.0F;
    columns[16 + i] = bit;
  }
  const Numbers<TypeParam> a(rows);
  const Numbers<TypeParam> b(columns);
  const Numbers<TypeParam> bias(Floats(16, 0.0F));
  const Floats arguments = {1.0F, 1.0F + bit};
  Output limits(2);
  GuardedOutput<TypeParam> y(256);
  GuardedOutput<TypeParam> input(256);
  run([&](Stream& s) {
    gelu_forward(s, arguments.data(), limits.data(), 2);
    matmul_bias(
        s, a.narrow.data(), b.narrow.data(), y.data(), size,
        {.bias = bias.narrow.data(), .activation = Activation::gelu, .input = input.data()});
  });
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(float{input[i]}, float{TypeParam(1.0F + bit)});
    EXPECT_GT(float{y[i]}, 0.5F * (limits[0] + limits[1]));
  }
}

// Many layers have one shape, and each its own bias and its own outputs.
TYPED_TEST(MatmulBias, UsesTheOperandsOfEveryCall) {
  const MatmulShape size{8, 16, 8};
  const auto a = TestFixture::some("a", 64);
  const auto b = TestFixture::some("b", 128);
  const Numbers<TypeParam> zeros(Floats(16, 0.0F));
  const Numbers<TypeParam> ones(Floats(16, 256.0F));
  GuardedOutput<TypeParam> first(128);
  GuardedOutput<TypeParam> first_input(128);
  GuardedOutput<TypeParam> second(128);
  GuardedOutput<TypeParam> second_input(128);
  run([&](Stream& s) {
    const auto multiply = [&](const auto& bias, auto& y, auto& input) {
      matmul_bias(
          s, a.narrow.data(), b.narrow.data(), y.data(), size,
          {.bias = bias.narrow.data(), .activation = Activation::gelu, .input = input.data()});
    };
    multiply(zeros, first, first_input);
    multiply(ones, second, second_input);
  });
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_LT(std::abs(float{first_input[i]}), 128.0F);
    EXPECT_LT(std::abs(float{first[i]}), 128.0F);
    EXPECT_GT(float{second_input[i]}, 128.0F);
    EXPECT_GT(float{second[i]}, 128.0F);
  }
}

TYPED_TEST(MatmulBias, NanStaysNan) {
  const MatmulShape size{8, 16, 8};
  const Numbers<TypeParam> nothing(Floats(128, 0.0F));
  const Numbers<TypeParam> bias(Floats(16, kNan));
  for (const Activation activation : kActivations) {
    const typename GuardedOutput<TypeParam>::Values zeros(128, TypeParam(0.0F));
    GuardedOutput<TypeParam> y(zeros);
    GuardedOutput<TypeParam> input(zeros);
    const bool gelu = activation == Activation::gelu;
    run([&](Stream& s) {
      matmul_bias(s, nothing.narrow.data(), nothing.narrow.data(), y.data(), size,
                  {.bias = bias.narrow.data(),
                   .activation = activation,
                   .input = gelu ? input.data() : nullptr});
    });
    for (size_t i = 0; i < 128; ++i) {
      EXPECT_TRUE(std::isnan(float{y[i]})) << static_cast<int>(activation);
      EXPECT_EQ(std::isnan(float{input[i]}), gelu);
    }
  }
}

TEST(MatmulBiasOfFloats, HasTheSameBitsForAnyTeam) {
  for (const MatmulShape size : {MatmulShape{70, 50, 5196}, {300, 257, 65}, {1024, 700, 16}}) {
    for (const bool transpose_b : {false, true}) {
      const auto a = random_floats("a", size.m * size.k);
      const auto b = random_floats("b", size.k * size.n);
      const auto bias = random_floats("bias", size.n);
      expect_same_bits([&](int threads) {
        Output y(size.m * size.n);
        Output input(size.m * size.n);
        run(
            [&](Stream& s) {
              matmul_bias(
                  s, a.data(), b.data(), y.data(), {size.m, size.n, size.k, false, transpose_b},
                  {.bias = bias.data(), .activation = Activation::gelu, .input = input.data()});
            },
            threads);
        return all_of(y, input);
      });
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
