#include "kernels/cross_entropy.h"

#include "losses.h"

namespace hidup::kernels::testing {
namespace {

constexpr float kLossScale = 0.125F;

struct Scores {
  double loss;
  double accuracy;
};

Scores reference(const Doubles& logits, const Ints& targets, Doubles* lse) {
  const size_t vocab = targets.empty() ? 0 : logits.size() / targets.size();
  double loss = 0.0;
  int right = 0;
  for (size_t r = 0; r < targets.size(); ++r) {
    double sum = 0.0;
    const double logit = logits[r * vocab + static_cast<size_t>(targets[r])];
    bool is_right = true;
    for (size_t v = 0; v < vocab; ++v) {
      sum += std::exp(logits[r * vocab + v]);
      is_right = is_right && logits[r * vocab + v] <= logit;
    }
    lse->push_back(std::log(sum));
    loss += std::log(sum) - logit;
    right += is_right ? 1 : 0;
  }
  return {static_cast<double>(kLossScale) * loss, static_cast<double>(kLossScale) * right};
}

struct CrossEntropyCase {
  int64_t rows;
  int64_t vocab;
};

TEST(CrossEntropy, AgreesWithDoubleAndItsDifferences) {
  for (const auto& [rows, vocab] : {CrossEntropyCase{0, 7},
                                    {1, 1},
                                    {5, 7},
                                    {5, 8},
                                    {33, 259},
                                    {3, 1024},
                                    {3, 1028},
                                    {2, 3001}}) {
    SCOPED_TRACE("vocabulary " + std::to_string(vocab));
    const auto logits = random_floats("logits", rows * vocab, 3.0);
    const auto targets = random_tokens("targets", rows, vocab);
    Output lse(rows);
    Output loss(2);
    Output added(Floats{2.5F, 0.75F});
    Output dlogits(rows * vocab);
    Output in_place(logits);
    run([&, rows = rows, vocab = vocab](Stream& s) {
      CrossEntropy<float> of{.rows = rows,
                             .columns = vocab,
                             .logits = logits.data(),
                             .targets = targets.data(),
                             .scale = kLossScale,
                             .lse = lse.data(),
                             .loss = loss.data(),
                             .dlogits = dlogits.data()};
      of.forward(s);
      of.backward(s);
      of.backward_in_place(s, in_place.data());
      of.loss = added.data();
      of.forward(s, true);
    });
    Doubles expected_lse;
    const Scores expected = reference(to_doubles(logits), targets, &expected_lse);
    expect_close(lse, expected_lse, 16.0 * kEpsilon, "lse");
    expect_close(loss, {expected.loss, expected.accuracy}, 16.0 * kEpsilon, "loss");
    expect_close(added, {expected.loss + 2.5, expected.accuracy + 0.75}, 16.0 * kEpsilon,
                 "loss accumulated");
    expect_gradient(
        [&](const Doubles& at) {
          Doubles unused;
          return reference(at, targets, &unused).loss;
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
  const Floats logits = {1e4F, -1e4F, 0.0F, 0.0F, kNan, 0.0F};
  const Ints targets = {0, 0};
  Output lse(2);
  Output loss(2);
  Output dlogits(6);
  const auto of = [&](int64_t rows) {
    return CrossEntropy<float>{.rows = rows,
                               .columns = 3,
                               .logits = logits.data(),
                               .targets = targets.data(),
                               .lse = lse.data(),
                               .loss = loss.data(),
                               .dlogits = dlogits.data()};
  };
  run([&](Stream& s) {
    of(1).forward(s);
    of(1).backward(s);
  });
  EXPECT_EQ(loss[0], 0.0F);
  EXPECT_EQ(lse[0], 1e4F);
  EXPECT_EQ(dlogits[0], 0.0F);
  EXPECT_EQ(dlogits[1], 0.0F);
  run([&](Stream& s) { of(2).forward(s); });
  EXPECT_TRUE(std::isnan(loss[0]));
}

TEST(CrossEntropy, ARowIsRightWhereNoLogitIsLarger) {
  const Floats logits = {0.5F, 2.0F, -1.0F, 3.0F,  1.0F,  3.0F,
                         0.0F, 1.0F, 1.5F,  -2.0F, -3.0F, -4.0F};
  const Ints targets = {1, 2, 1, -1};
  Output lse(4);
  Output loss(2);
  const CrossEntropy<float> of{.rows = 4,
                               .columns = 3,
                               .logits = logits.data(),
                               .targets = targets.data(),
                               .scale = 0.25F,
                               .lse = lse.data(),
                               .loss = loss.data()};
  run([&](Stream& s) { of.forward(s); });
  EXPECT_EQ(loss[1], 0.5F);
}

// Returns columns begin .. end-1 of [rows, columns].
Floats part_of(const Floats& values, int64_t columns, int64_t begin, int64_t end) {
  Floats part;
  for (size_t row = 0; row * static_cast<size_t>(columns) < values.size(); ++row) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(row) * columns;
    part.insert(part.end(), at + begin, at + end);
  }
  return part;
}

// Returns the stats of the parts of the classes between cuts, [parts, rows, 3].
Floats stats_of(const Floats& logits, const Ints& targets, const std::vector<int64_t>& cuts,
                int threads = 1) {
  const auto rows = static_cast<int64_t>(targets.size());
  Floats all;
  for (size_t p = 0; p + 1 < cuts.size(); ++p) {
    const Floats part = part_of(logits, cuts.back(), cuts[p], cuts[p + 1]);
    Output stats(3 * rows);
    const CrossEntropy<float> of{.rows = rows,
                                 .columns = cuts[p + 1] - cuts[p],
                                 .logits = part.data(),
                                 .targets = targets.data(),
                                 .statistics = stats.data(),
                                 .first = cuts[p]};
    run([&](Stream& s) { of.stats(s); }, threads);
    append(all, stats);
  }
  return all;
}

// Merges the stats of all parts.
void merge(Stream& stream, const float* stats, int64_t parts, const Ints& targets, Output& lse,
           Output& loss, float scale = 1.0F, bool accumulate = false) {
  cross_entropy_merge(stream, {stats, targets.data(), lse.data(), loss.data(), parts,
                               static_cast<int64_t>(targets.size()), scale, accumulate});
}

TEST(CrossEntropy, StatsAreThoseOfTheClassesThatAreHere) {
  const Floats logits = {0.5F, -1.0F, 2.0F, 1.5F, 3.0F, 3.5F};
  const Ints targets = {2, 0};
  const Floats stats = stats_of(logits, targets, {0, 0, 1, 3});
  const float nothing = -std::numeric_limits<float>::infinity();
  const Floats expected = {nothing,
                           nothing,
                           0.0F,
                           nothing,
                           nothing,
                           0.0F,
                           0.5F,
                           0.5F,
                           0.0F,
                           1.5F,
                           1.5F,
                           1.5F,
                           std::log(std::exp(-1.0F) + std::exp(2.0F)),
                           2.0F,
                           2.0F,
                           std::log(std::exp(3.0F) + std::exp(3.5F)),
                           3.5F,
                           0.0F};
  ASSERT_EQ(stats.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_FLOAT_EQ(stats[i], expected[i]) << i;
  }
}

TEST(CrossEntropy, PartsOfTheClassesMakeUpTheWhole) {
  struct Parts {
    int64_t rows;
    std::vector<int64_t> cuts;
  };
  for (const auto& [rows, cuts] : {Parts{33, {0, 0, 100, 101, 259, 259}}, Parts{0, {0, 3, 5}},
                                   Parts{5, {0, 7}}, Parts{7, {0, 1, 1, 2}}}) {
    const int64_t vocab = cuts.back();
    const auto parts = static_cast<int64_t>(cuts.size()) - 1;
    const auto logits = random_floats("logits", rows * vocab, 3.0);
    const auto targets = random_tokens("targets", rows, vocab);
    const Floats stats = stats_of(logits, targets, cuts);
    Output whole_lse(rows);
    Output whole_loss(2);
    Output whole_dlogits(rows * vocab);
    Output lse(rows);
    Output loss(2);
    Output added(Floats{2.5F, 0.75F});
    run([&, rows = rows](Stream& s) {
      const CrossEntropy<float> whole{.rows = rows,
                                      .columns = vocab,
                                      .logits = logits.data(),
                                      .targets = targets.data(),
                                      .scale = kLossScale,
                                      .lse = whole_lse.data(),
                                      .loss = whole_loss.data(),
                                      .dlogits = whole_dlogits.data()};
      whole.forward(s);
      whole.backward(s);
      merge(s, stats.data(), parts, targets, lse, loss, kLossScale);
      merge(s, stats.data(), parts, targets, lse, added, kLossScale, true);
    });
    const auto expected = static_cast<double>(whole_loss[0]);
    const auto right = static_cast<double>(whole_loss[1]);
    expect_close(lse, to_doubles(whole_lse.values()), 4.0 * kEpsilon, "lse");
    expect_close(loss, {expected, right}, 16.0 * kEpsilon, "loss");
    expect_close(added, {expected + 2.5, right + 0.75}, 16.0 * kEpsilon, "loss accumulated");
    for (size_t p = 0; p + 1 < cuts.size(); ++p) {
      const Floats part = part_of(logits, vocab, cuts[p], cuts[p + 1]);
      Output dlogits(static_cast<int64_t>(part.size()));
      const CrossEntropy<float> of{.rows = rows,
                                   .columns = cuts[p + 1] - cuts[p],
                                   .logits = part.data(),
                                   .targets = targets.data(),
                                   .scale = kLossScale,
                                   .lse = whole_lse.data(),
                                   .dlogits = dlogits.data(),
                                   .first = cuts[p]};
      run([&](Stream& s) { of.backward(s); });
      EXPECT_EQ(dlogits.values(), part_of(whole_dlogits.values(), vocab, cuts[p], cuts[p + 1]));
    }
  }
}

TEST(CrossEntropy, MergeOfLargeLogitsDoesNotOverflowAndNanIsSeen) {
  const float nothing = -std::numeric_limits<float>::infinity();
  const Floats stats = {-1e4F, -1e4F, 0.0F, nothing, nothing, 0.0F, 1e4F, 1e4F, 1e4F};
  const Floats broken = {0.0F, 0.0F, 0.0F, nothing, nothing, 0.0F, kNan, kNan, 0.0F};
  const Ints targets = {0};
  Output lse(1);
  Output loss(2);
  Output broken_loss(2);
  run([&](Stream& s) { merge(s, stats.data(), 3, targets, lse, loss); });
  EXPECT_EQ(lse[0], 1e4F);
  EXPECT_EQ(loss[0], 0.0F);
  run([&](Stream& s) { merge(s, broken.data(), 3, targets, lse, broken_loss); });
  EXPECT_TRUE(std::isnan(lse[0]));
  // No part has classes.
  run([&](Stream& s) { merge(s, stats.data() + 3, 1, targets, lse, loss); });
  EXPECT_EQ(lse[0], nothing);
  EXPECT_TRUE(std::isnan(broken_loss[0]));
}

TEST(CrossEntropy, MergeHasTheSameBitsForAnyTeam) {
  const int64_t rows = 501;
  const std::vector<int64_t> cuts = {0, 100, 259};
  const auto logits = random_floats("logits", rows * cuts.back(), 3.0);
  const auto targets = random_tokens("targets", rows, cuts.back());
  expect_same_bits([&](int threads) {
    Floats all = stats_of(logits, targets, cuts, threads);
    Output lse(rows);
    Output loss(2);
    run([&](Stream& s) { merge(s, all.data(), 2, targets, lse, loss, kLossScale); }, threads);
    append(all, lse);
    append(all, loss);
    return all;
  });
}

TEST(CrossEntropy, HasTheSameBitsForAnyTeam) {
  const int64_t rows = 501;
  const int64_t vocab = 259;
  const auto logits = random_floats("logits", rows * vocab, 3.0);
  const auto targets = random_tokens("targets", rows, vocab);
  expect_same_bits([&](int threads) {
    Output lse(rows);
    Output loss(2);
    Output dlogits(rows * vocab);
    const CrossEntropy<float> of{.rows = rows,
                                 .columns = vocab,
                                 .logits = logits.data(),
                                 .targets = targets.data(),
                                 .scale = kLossScale,
                                 .lse = lse.data(),
                                 .loss = loss.data(),
                                 .dlogits = dlogits.data()};
    run(
        [&](Stream& s) {
          of.forward(s);
          of.backward(s);
        },
        threads);
    return all_of(lse, loss, dlogits);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
