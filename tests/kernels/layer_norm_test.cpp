#include "kernels/layer_norm.h"

#include <string>

#include "kernel_test.h"
#include "norms.h"

namespace hidup::kernels::testing {
namespace {

struct NormReference {
  Doubles y;
  Doubles mean;
  Doubles rstd;
};

NormReference reference(const Doubles& x, const Doubles& gamma, const Doubles& beta,
                        bool centered) {
  const size_t n = gamma.size();
  NormReference result;
  for (size_t first = 0; first < x.size(); first += n) {
    double mean = 0.0;
    double variance = 0.0;
    for (size_t j = 0; j < n && centered; ++j) {
      mean += x[first + j] / static_cast<double>(n);
    }
    for (size_t j = 0; j < n; ++j) {
      variance += (x[first + j] - mean) * (x[first + j] - mean) / static_cast<double>(n);
    }
    const double rstd = 1.0 / std::sqrt(variance + static_cast<double>(kNormEps));
    for (size_t j = 0; j < n; ++j) {
      result.y.push_back((x[first + j] - mean) * rstd * gamma[j] + (centered ? beta[j] : 0.0));
    }
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
  }
  return result;
}

// Operands and results of layer norm (centered) or RMS norm.
struct Data {
  Data(int64_t of_rows, int64_t of_n, bool is_centered)
      : rows(of_rows),
        n(of_n),
        centered(is_centered),
        x(random_floats("x", rows * n, 2.0)),
        gamma(random_floats("gamma", n)),
        beta(random_floats("beta", n)),
        dy(random_floats("dy", rows * n)) {
    for (float& value : x) {
      value += centered ? 3.0F : 0.0F;  // a mean to subtract
    }
  }
  int64_t rows;
  int64_t n;
  bool centered;
  Floats x;
  Floats gamma;
  Floats beta;
  Floats dy;
};

struct LayerNormOutputs {
  explicit LayerNormOutputs(const Data& d)
      : y(d.rows * d.n), mean(d.rows), rstd(d.rows), dx(d.rows * d.n), dgamma(d.n), dbeta(d.n) {}
  Output y;
  Output mean;
  Output rstd;
  Output dx;
  Output dgamma;
  Output dbeta;
};

Norm<float> norm_of(const Data& d, LayerNormOutputs& out) {
  return Norm<float>{.rows = d.rows,
                     .n = d.n,
                     .x = d.x.data(),
                     .gamma = d.gamma.data(),
                     .beta = d.beta.data(),
                     .y = out.y.data(),
                     .mean = out.mean.data(),
                     .rstd = out.rstd.data(),
                     .dy = d.dy.data(),
                     .dx = out.dx.data(),
                     .dgamma = out.dgamma.data(),
                     .dbeta = out.dbeta.data()}
      .centered(d.centered);
}

void both_passes(const Data& d, LayerNormOutputs& out, int threads) {
  run(
      [&](Stream& stream) {
        norm_of(d, out).forward(stream);
        norm_of(d, out).backward(stream);
      },
      threads);
}

// Calls check(centered) for both norms.
void for_norms(const std::function<void(bool)>& check) {
  for (const bool centered : {true, false}) {
    SCOPED_TRACE(centered ? "layer norm" : "RMS norm");
    check(centered);
  }
}

// Some lengths are near those of a warp's and a block's vectors.
TEST(LayerNorm, AgreesWithDoubleAndItsDifferences) {
  for_norms([](bool centered) {
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{0, 5},
                                  {3, 2},
                                  {3, 5},
                                  {9, 4},
                                  {5, 37},
                                  {2, 67},
                                  {70, 33},
                                  {70, 36},
                                  {70, 131},
                                  {19, 132},
                                  {8300, 8},
                                  {41, 512},
                                  {41, 516},
                                  {3, 1301},
                                  {5, 2053},
                                  {3, 4096},
                                  {3, 4100}}) {
      SCOPED_TRACE("rows of " + std::to_string(n));
      const Data d(rows, n, centered);
      LayerNormOutputs out(d);
      both_passes(d, out, 1);
      const Doubles x = to_doubles(d.x);
      const Doubles gamma = to_doubles(d.gamma);
      const Doubles beta = to_doubles(d.beta);
      const Doubles dy = to_doubles(d.dy);
      const auto expected = [&](const Doubles& of_x, const Doubles& of_gamma,
                                const Doubles& of_beta) {
        return reference(of_x, of_gamma, of_beta, centered);
      };
      const NormReference forward = expected(x, gamma, beta);
      expect_close(out.y, forward.y, 64.0 * kEpsilon, "y");
      expect_close(out.rstd, forward.rstd, 64.0 * kEpsilon, "rstd");
      const double tolerance = 2e-5;
      expect_gradient([&](const Doubles& at) { return dot(expected(at, gamma, beta).y, dy); }, x,
                      out.dx, tolerance, "dx");
      expect_gradient([&](const Doubles& at) { return dot(expected(x, at, beta).y, dy); }, gamma,
                      out.dgamma, tolerance, "dgamma");
      if (centered) {
        expect_close(out.mean, forward.mean, 64.0 * kEpsilon, "mean");
        expect_gradient([&](const Doubles& at) { return dot(expected(x, gamma, at).y, dy); }, beta,
                        out.dbeta, tolerance, "dbeta");
      }
    }
  });
}

// The variance must not be the difference of large squares.
TEST(LayerNorm, ALargeMeanDoesNotCancel) {
  for (const int64_t n : {33, 512, 4096, 4100}) {
    SCOPED_TRACE("rows of " + std::to_string(n));
    Data d(3, n, true);
    for (float& value : d.x) {
      value += 3000.0F;
    }
    LayerNormOutputs out(d);
    both_passes(d, out, 1);
    const NormReference expected =
        reference(to_doubles(d.x), to_doubles(d.gamma), to_doubles(d.beta), true);
    expect_close(out.y, expected.y, 1e-3, "y");
    expect_close(out.rstd, expected.rstd, 1e-4, "rstd");
  }
}

TEST(LayerNorm, WhatIsNotFiniteStaysInItsRow) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {33, 36, 516, 4100}) {
    for (const float bad : {kNan, infinity, -infinity}) {
      SCOPED_TRACE(::testing::Message() << "rows of " << n << ", " << bad);
      Data d(11, n, true);
      LayerNormOutputs good(d);
      both_passes(d, good, 1);
      d.x[static_cast<size_t>(4 * n) - 1] = bad;
      LayerNormOutputs out(d);
      both_passes(d, out, 1);
      for (size_t i = 0; i < d.x.size(); ++i) {
        const bool in_its_row = static_cast<int64_t>(i) / n == 3;
        ASSERT_TRUE(in_its_row ? std::isnan(out.y[i]) : out.y[i] == good.y[i]) << i;
        ASSERT_TRUE(in_its_row ? std::isnan(out.dx[i]) : out.dx[i] == good.dx[i]) << i;
      }
      for (size_t j = 0; j < d.gamma.size(); ++j) {
        ASSERT_TRUE(std::isnan(out.dgamma[j])) << j;
        ASSERT_EQ(out.dbeta[j], good.dbeta[j]) << j;
      }
    }
  }
}

TEST(LayerNorm, BackwardAccumulatesAndWorksInPlace) {
  for_norms([](bool centered) {
    for (const int64_t n : {33, 36, 516}) {
      const Data d(70, n, centered);
      LayerNormOutputs out(d);
      both_passes(d, out, 1);
      const auto before = random_floats("before", d.n);
      Output dx(d.dy);
      Output dgamma(before);
      Output dbeta(before);
      run([&](Stream& stream) {
        Norm<float> norm = norm_of(d, out);
        norm.dy = dx.data();
        norm.dx = dx.data();
        norm.dgamma = dgamma.data();
        norm.dbeta = dbeta.data();
        norm.centered(centered).backward(stream, true);
      });
      for (size_t j = 0; j < before.size(); ++j) {
        EXPECT_EQ(dgamma[j], before[j] + out.dgamma[j]);
        EXPECT_EQ(dbeta[j], centered ? before[j] + out.dbeta[j] : before[j]);
      }
      EXPECT_EQ(dx.values(), out.dx.values());
    }
  });
}

TEST(LayerNorm, NoRowsGiveZeroGradients) {
  for_norms([](bool centered) {
    const Data d(0, 5, centered);
    LayerNormOutputs out(d);
    both_passes(d, out, 1);
    EXPECT_EQ(out.dgamma.values(), Floats(5, 0.0F));
    if (centered) {
      EXPECT_EQ(out.dbeta.values(), Floats(5, 0.0F));
    }
    const auto before = random_floats("before", 5);
    Output dgamma(before);
    Output dbeta(before);
    run([&](Stream& stream) {
      const Norm<float> none{.rows = 0,
                             .n = d.n,
                             .x = nullptr,
                             .gamma = d.gamma.data(),
                             .dgamma = dgamma.data(),
                             .dbeta = dbeta.data()};
      none.centered(centered).backward(stream, true);
    });
    EXPECT_EQ(dgamma.values(), before);
    EXPECT_EQ(dbeta.values(), before);
  });
}

TEST(LayerNorm, HasTheSameBitsForAnyTeam) {
  for_norms([](bool centered) {
    for (const auto& [rows, n] :
         {std::pair<int64_t, int64_t>{1501, 67}, {1501, 64}, {19, 2053}, {19, 2056}}) {
      const Data d(rows, n, centered);
      expect_same_bits([&](int threads) {
        LayerNormOutputs out(d);
        both_passes(d, out, threads);
        return centered ? all_of(out.y, out.mean, out.rstd, out.dx, out.dgamma, out.dbeta)
                        : all_of(out.y, out.rstd, out.dx, out.dgamma);
      });
    }
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
