#include "kernels/residual_norm.h"

#include <string>
#include <vector>

#include "norms.h"
#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

constexpr uint64_t kBranchKey = 0x0123456789ABCDEFULL;

// Returns parts of whole rows: of even and odd lengths, for a warp and for a block, with and
// without vectors, down to no rows.
std::vector<Region> row_parts() {
  return {
      box({3, 5, 40}, {0, 0, 0}, {3, 5, 40}),
      box({3, 5, 41}, {1, 2, 0}, {2, 3, 41}),
      box({9, 8}, {0, 0}, {9, 8}),
      box({7, 2051}, {2, 0}, {4, 2051}),
      box({3, 4, 1024}, {1, 1, 0}, {2, 2, 1024}),
      box({4, 1032}, {1, 0}, {3, 1032}),
      box({3, 4096}, {1, 0}, {2, 4096}),
      box({3, 8192}, {1, 0}, {2, 8192}),
      box({2, 8200}, {1, 0}, {1, 8200}),
      box({2, 3, 1}, {0, 1, 0}, {2, 2, 1}),
      box({1 << 20, 4096}, {1 << 20, 0}, {0, 4096}),
      box({1 << 20, 4097}, {(1 << 20) - 2, 0}, {2, 4097}),
  };
}

template <typename T>
struct NormOutputs {
  NormOutputs(int64_t rows, int64_t n) : sum(rows * n), y(rows * n), mean(rows), rstd(rows) {}
  GuardedOutput<T> sum;
  GuardedOutput<T> y;
  Output mean;
  Output rstd;
};

int64_t rows_of(const Region& region) {
  return region.elements() / region.extent[region.dims - 1];
}

// Computes the sum by its definition, one element at a time.
Doubles expected_sum(const Floats& branch, const Floats& residual, const DropoutMask& dropout,
                     uint64_t step) {
  const RandomStream random{dropout.key, step};
  Doubles sum;
  for (size_t i = 0; i < branch.size(); ++i) {
    const int64_t index = dropout.region.global_index(static_cast<int64_t>(i));
    const bool keep =
        dropout.p == 0.0F || random.uniform(static_cast<uint64_t>(index)) >= dropout.p;
    sum.push_back(
        static_cast<double>(residual[i]) +
        (keep ? static_cast<double>(branch[i]) / (1.0 - static_cast<double>(dropout.p)) : 0.0));
  }
  return sum;
}

template <typename T>
struct NormInputs {
  const T* branch;
  const T* residual;
  const T* gamma;
  const T* beta;  // null: RMS norm
};

// Runs the kernel with the sum in a place of its own, or in `sum`.
template <typename T>
void residual_norm_of(Stream& stream, const NormInputs<T>& in, const DropoutMask& dropout,
                      NormOutputs<T>& out, T* sum = nullptr) {
  const Region& region = dropout.region;
  residual_norm<T>(stream, {.branch = in.branch,
                            .residual = in.residual,
                            .dropout = dropout,
                            .gamma = in.gamma,
                            .beta = in.beta,
                            .sum = sum == nullptr ? out.sum.data() : sum,
                            .y = out.y.data(),
                            .mean = in.beta == nullptr ? nullptr : out.mean.data(),
                            .rstd = out.rstd.data(),
                            .rows = rows_of(region),
                            .n = region.extent[region.dims - 1],
                            .eps = kNormEps});
}

// Computes the norm of the sums with the plain kernel.
Norm<float> norm_of(const Floats& sum, const Floats& gamma, const Floats& beta,
                    NormOutputs<float>& out) {
  const auto n = static_cast<int64_t>(gamma.size());
  return {.rows = static_cast<int64_t>(sum.size()) / n,
          .n = n,
          .x = sum.data(),
          .gamma = gamma.data(),
          .beta = beta.data(),
          .y = out.y.data(),
          .mean = out.mean.data(),
          .rstd = out.rstd.data()};
}

// Without beta it is the RMS norm of the sum.
TEST(ResidualNorm, IsTheNormOfTheSum) {
  const OnDevice<StepState> state({.step = 0x300000002ULL});
  for (const Region& region : row_parts()) {
    const int64_t n = region.extent[region.dims - 1];
    const int64_t rows = rows_of(region);
    const auto branch = random_floats("branch", rows * n);
    const auto residual = random_floats("residual", rows * n, 2.0);
    const auto gamma = random_floats("gamma", n);
    const auto beta = random_floats("beta", n);
    for (const bool centered : {true, false}) {
      for (const float p : {0.0F, 0.1F, 0.5F}) {
        SCOPED_TRACE((centered ? "layer norm, rows of " : "RMS norm, rows of ") +
                     std::to_string(n) + ", p " + std::to_string(p));
        const DropoutMask dropout{region, p, kBranchKey, state.get()};
        NormOutputs<float> out(rows, n);
        NormOutputs<float> norm(rows, n);
        const float* const shift = centered ? beta.data() : nullptr;
        run([&](Stream& s) {
          residual_norm_of<float>(s, {branch.data(), residual.data(), gamma.data(), shift}, dropout,
                                  out);
        });
        const Floats sum = out.sum.values();
        expect_close(sum, expected_sum(branch, residual, dropout, state->step), 4.0 * kEpsilon,
                     "sum");
        run([&](Stream& s) { norm_of(sum, gamma, beta, norm).centered(centered).forward(s); });
        expect_close(out.y, to_doubles(norm.y.values()), (centered ? 32.0 : 8.0) * kEpsilon, "y");
        expect_close(out.rstd, to_doubles(norm.rstd.values()), 8.0 * kEpsilon, "rstd");
        if (centered) {
          expect_close(out.mean, to_doubles(norm.mean.values()), 8.0 * kEpsilon, "mean");
        }
      }
    }
  }
}

TEST(ResidualNorm, TheSumMayTakeThePlaceOfWhatIsAdded) {
  const OnDevice<StepState> state({.step = 3});
  for (const int64_t n : {1030, 512, 1032}) {
    const Region region = box({9, n}, {1, 0}, {8, n});
    const int64_t rows = 8;
    const auto branch = random_floats("branch", rows * n);
    const auto residual = random_floats("residual", rows * n);
    const Floats gamma(static_cast<size_t>(n), 1.0F);
    const Floats beta(static_cast<size_t>(n), 0.5F);
    for (const float p : {0.0F, 0.25F}) {
      const DropoutMask dropout{region, p, kBranchKey, state.get()};
      NormOutputs<float> beside(rows, n);
      NormOutputs<float> on_branch(rows, n);
      NormOutputs<float> on_residual(rows, n);
      Output changed_branch(branch);
      Output changed_residual(residual);
      run([&](Stream& s) {
        const auto norm = [&](const float* b, const float* r, float* sum, NormOutputs<float>& out) {
          residual_norm_of<float>(s, {b, r, gamma.data(), beta.data()}, dropout, out, sum);
        };
        norm(branch.data(), residual.data(), beside.sum.data(), beside);
        norm(changed_branch.data(), residual.data(), changed_branch.data(), on_branch);
        norm(branch.data(), changed_residual.data(), changed_residual.data(), on_residual);
      });
      EXPECT_EQ(on_branch.y.values(), beside.y.values());
      EXPECT_EQ(on_residual.y.values(), beside.y.values());
      EXPECT_EQ(changed_branch.values(), beside.sum.values());
      EXPECT_EQ(changed_residual.values(), beside.sum.values());
    }
  }
}

template <typename Element>
class ResidualNormIn16Bits : public ::testing::Test {};
TYPED_TEST_SUITE(ResidualNormIn16Bits, SixteenBits);

// The sum is rounded, and the rounded sum is normalized.
TYPED_TEST(ResidualNormIn16Bits, RoundsOnce) {
  constexpr double kRelative = Rounding<TypeParam>::kRelative;
  const OnDevice<StepState> state({.step = 7});
  for (const Region& region : row_parts()) {
    const int64_t n = region.extent[region.dims - 1];
    const int64_t rows = rows_of(region);
    const Numbers<TypeParam> branch(random_floats("branch", rows * n));
    const Numbers<TypeParam> residual(random_floats("residual", rows * n));
    const Numbers<TypeParam> gamma(random_floats("gamma", n));
    const Numbers<TypeParam> beta(random_floats("beta", n));
    for (const float p : {0.0F, 0.1F}) {
      SCOPED_TRACE("rows of " + std::to_string(n) + ", p " + std::to_string(p));
      const DropoutMask dropout{region, p, kBranchKey, state.get()};
      NormOutputs<TypeParam> out(rows, n);
      run([&](Stream& s) {
        residual_norm_of<TypeParam>(
            s,
            {branch.narrow.data(), residual.narrow.data(), gamma.narrow.data(), beta.narrow.data()},
            dropout, out);
      });
      expect_close(out.sum, expected_sum(branch.wide, residual.wide, dropout, state->step),
                   kRelative, "sum");
      const Numbers<TypeParam> sum(out.sum.values());
      NormOutputs<float> norm(rows, n);
      run([&](Stream& s) { norm_of(sum.wide, gamma.wide, beta.wide, norm).forward(s); });
      expect_close(out.y, to_doubles(norm.y.values()), kRelative, "y");
      expect_close(out.mean, to_doubles(norm.mean.values()), 8.0 * kEpsilon, "mean");
      expect_close(out.rstd, to_doubles(norm.rstd.values()), 8.0 * kEpsilon, "rstd");
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
