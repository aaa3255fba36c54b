#include "kernels/cross_entropy.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

constexpr float kScale = 0.125F;

double reference(const Doubles& logits, const std::vector<int32_t>& targets, Doubles* lse) {
  const size_t vocab = targets.empty() ? 0 : logits.size() / targets.size();
  double loss = 0.0;
  for (size_t r = 0; r < targets.size(); ++r) {
    double sum = 0.0;
    for (size_t v = 0; v < vocab; ++v) {
      sum += std::exp(logits[r * vocab + v]);
    }
    lse->push_back(std::log(sum));
    loss += std::log(sum) - logits[r * vocab + static_cast<size_t>(targets[r])];
  }
  return static_cast<double>(kScale) * loss;
}

struct Case {
  int64_t rows;
  int64_t vocab;
};

TEST(CrossEntropy, AgreesWithDoubleAndItsDifferences) {
  for (const auto& [rows, vocab] : {Case{0, 7}, {1, 1}, {5, 7}, {33, 259}, {2, 3001}}) {
    const auto logits = random_floats("logits", rows * vocab, 3.0);
    const auto targets = random_tokens("targets", rows, vocab);
    Output lse(rows);
    Output loss(1);
    Output added(std::vector<float>{2.5F});
    Output dlogits(rows * vocab);
    Output in_place(logits);
    run([&, rows = rows, vocab = vocab](Stream& s) {
      const float* x = logits.data();
      const int32_t* t = targets.data();
      cross_entropy_forward(s, x, t, lse.data(), loss.data(), rows, vocab, kScale, false);
      cross_entropy_forward(s, x, t, lse.data(), added.data(), rows, vocab, kScale, true);
      cross_entropy_backward(s, x, t, lse.data(), dlogits.data(), rows, vocab, kScale);
      cross_entropy_backward(s, in_place.data(), t, lse.data(), in_place.data(), rows, vocab,
                             kScale);
    });
    Doubles expected_lse;
    const double expected = reference(to_doubles(logits), targets, &expected_lse);
    expect_close(lse, expected_lse, 16.0 * kEpsilon, "lse");
    expect_close(loss, {expected}, 16.0 * kEpsilon, "loss");
    expect_close(added, {expected + 2.5}, 16.0 * kEpsilon, "loss accumulated");
    expect_gradient(
        [&](const Doubles& at) {
          Doubles unused;
          return reference(at, targets, &unused);
        },
        to_doubles(logits), dlogits, 2e-6, "dlogits");
    EXPECT_EQ(in_place.values(), dlogits.values());
    for (size_t r = 0; r < targets.size(); ++r) {  // the gradient of a row sums to zero
      double sum = 0.0;
      for (int64_t v = 0; v < vocab; ++v) {
        sum +=
            static_cast<double>(dlogits[r * static_cast<size_t>(vocab) + static_cast<size_t>(v)]);
      }
      EXPECT_NEAR(sum, 0.0, 1e-6);
    }
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflowAndNanIsSeen) {
  const std::vector<float> logits = {1e4F, -1e4F, 0.0F, 0.0F, kNan, 0.0F};
  const std::vector<int32_t> targets = {0, 0};
  Output lse(2);
  Output loss(1);
  Output dlogits(6);
  run([&](Stream& s) {
    cross_entropy_forward(s, logits.data(), targets.data(), lse.data(), loss.data(), 1, 3, 1.0F,
                          false);
    cross_entropy_backward(s, logits.data(), targets.data(), lse.data(), dlogits.data(), 1, 3,
                           1.0F);
  });
  EXPECT_EQ(loss[0], 0.0F);
  EXPECT_EQ(lse[0], 1e4F);
  EXPECT_EQ(dlogits[0], 0.0F);
  EXPECT_EQ(dlogits[1], 0.0F);
  run([&](Stream& s) {
    cross_entropy_forward(s, logits.data(), targets.data(), lse.data(), loss.data(), 2, 3, 1.0F,
                          false);
  });
  EXPECT_TRUE(std::isnan(loss[0]));
}

TEST(CrossEntropy, HasTheSameBitsForAnyTeam) {
  const int64_t rows = 501;
  const int64_t vocab = 259;
  const auto logits = random_floats("logits", rows * vocab, 3.0);
  const auto targets = random_tokens("targets", rows, vocab);
  expect_same_bits([&](int threads) {
    Output lse(rows);
    Output loss(1);
    Output dlogits(rows * vocab);
    run(
        [&](Stream& s) {
          cross_entropy_forward(s, logits.data(), targets.data(), lse.data(), loss.data(), rows,
                                vocab, kScale, false);
          cross_entropy_backward(s, logits.data(), targets.data(), lse.data(), dlogits.data(), rows,
                                 vocab, kScale);
        },
        threads);
    std::vector<float> all;
    append(all, lse);
    append(all, loss);
    append(all, dlogits);
    return all;
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
