#include "kernels/rms_norm.h"

#include <string>

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

constexpr float kRmsEps = 1e-5F;

struct RmsNormReference {
  Doubles y;
  Doubles rstd;
};

RmsNormReference rms_reference(const Doubles& x, const Doubles& gamma) {
  const size_t n = gamma.size();
  RmsNormReference result;
  for (size_t first = 0; first < x.size(); first += n) {
    double squares = 0.0;
    for (size_t j = 0; j < n; ++j) {
      squares += x[first + j] * x[first + j] / static_cast<double>(n);
    }
    const double rstd = 1.0 / std::sqrt(squares + static_cast<double>(kRmsEps));
    for (size_t j = 0; j < n; ++j) {
      result.y.push_back(x[first + j] * rstd * gamma[j]);
    }
    result.rstd.push_back(rstd);
  }
  return result;
}

struct RmsNormData {
  RmsNormData(int64_t of_rows, int64_t of_n)
      : rows(of_rows),
        n(of_n),
        x(random_floats("x", rows * n, 2.0)),
        gamma(random_floats("gamma", n)),
        dy(random_floats("dy", rows * n)) {}
  int64_t rows;
  int64_t n;
  Floats x;
  Floats gamma;
  Floats dy;
};

struct RmsNormOutputs {
  explicit RmsNormOutputs(const RmsNormData& d)
      : y(d.rows * d.n), rstd(d.rows), dx(d.rows * d.n), dgamma(d.n) {}
  Output y;
  Output rstd;
  Output dx;
  Output dgamma;
};

void rms_norm_backward_of(Stream& stream, const RmsNormData& d, const float* rstd, const float* dy,
                          float* dx, float* dgamma, bool accumulate) {
  rms_norm_backward<float>(stream, {.x = d.x.data(),
                                    .gamma = d.gamma.data(),
                                    .rstd = rstd,
                                    .dy = dy,
                                    .dx = dx,
                                    .dgamma = dgamma,
                                    .rows = d.rows,
                                    .n = d.n,
                                    .accumulate = accumulate});
}

void rms_norm_passes(const RmsNormData& d, RmsNormOutputs& out, int threads) {
  run(
      [&](Stream& stream) {
        rms_norm_forward<float>(stream, {.x = d.x.data(),
                                         .gamma = d.gamma.data(),
                                         .y = out.y.data(),
                                         .rstd = out.rstd.data(),
                                         .rows = d.rows,
                                         .n = d.n,
                                         .eps = kRmsEps});
        rms_norm_backward_of(stream, d, out.rstd.data(), d.dy.data(), out.dx.data(),
                             out.dgamma.data(), false);
      },
      threads);
}

TEST(RmsNorm, AgreesWithDoubleAndItsDifferences) {
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{0, 5},
                                {3, 2},
                                {9, 4},
                                {5, 37},
                                {70, 33},
                                {70, 36},
                                {8300, 8},
                                {41, 512},
                                {41, 516},
                                {3, 1301},
                                {3, 4096},
                                {3, 4100}}) {
    SCOPED_TRACE("rows of " + std::to_string(n));
    const RmsNormData d(rows, n);
    RmsNormOutputs out(d);
    rms_norm_passes(d, out, 1);
    const Doubles x = to_doubles(d.x);
    const Doubles gamma = to_doubles(d.gamma);
    const Doubles dy = to_doubles(d.dy);
    expect_close(out.y, rms_reference(x, gamma).y, 64.0 * kEpsilon, "y");
    expect_close(out.rstd, rms_reference(x, gamma).rstd, 64.0 * kEpsilon, "rstd");
    expect_gradient([&](const Doubles& at) { return dot(rms_reference(at, gamma).y, dy); }, x,
                    out.dx, 2e-5, "dx");
    expect_gradient([&](const Doubles& at) { return dot(rms_reference(x, at).y, dy); }, gamma,
                    out.dgamma, 2e-5, "dgamma");
  }
}

TEST(RmsNorm, BackwardAccumulatesAndWorksInPlace) {
  for (const int64_t n : {33, 36, 516}) {
    const RmsNormData d(70, n);
    RmsNormOutputs out(d);
    rms_norm_passes(d, out, 1);
    const auto before = random_floats("before", d.n);
    Output dx(d.dy);
    Output dgamma(before);
    run([&](Stream& stream) {
      rms_norm_backward_of(stream, d, out.rstd.data(), dx.data(), dx.data(), dgamma.data(), true);
    });
    for (size_t j = 0; j < before.size(); ++j) {
      EXPECT_EQ(dgamma[j], before[j] + out.dgamma[j]);
    }
    EXPECT_EQ(dx.values(), out.dx.values());
  }
}

TEST(RmsNorm, HasTheSameBitsForAnyTeam) {
  for (const auto& [rows, n] :
       {std::pair<int64_t, int64_t>{1501, 67}, {1501, 64}, {19, 2053}, {19, 2056}}) {
    const RmsNormData d(rows, n);
    expect_same_bits([&](int threads) {
      RmsNormOutputs out(d);
      rms_norm_passes(d, out, threads);
      Floats all;
      for (const Output* output : {&out.y, &out.rstd, &out.dx, &out.dgamma}) {
        append(all, *output);
      }
      return all;
    });
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
