// Rows without a target change nothing, even where they are not finite.
#include "losses.h"

namespace hidup::kernels::testing {
namespace {

constexpr int64_t kVocab = 11;
constexpr float kRowScale = 0.125F;

struct Result {
  Floats lse, loss, dlogits;
};

Result whole(const Floats& logits, const Ints& targets) {
  const auto rows = static_cast<int64_t>(targets.size());
  Output lse(rows);
  Output loss(2);
  Output dlogits(logits);
  const CrossEntropy<float> of{.rows = rows,
                               .columns = kVocab,
                               .logits = logits.data(),
                               .targets = targets.data(),
                               .scale = kRowScale,
                               .lse = lse.data(),
                               .loss = loss.data()};
  run([&](Stream& s) {
    of.forward(s);
    of.backward_in_place(s, dlogits.data());
  });
  return {lse.values(), loss.values(), dlogits.values()};
}

// Computes the result from the stats of the first four classes and of the others.
Result in_parts(const Floats& logits, const Ints& targets) {
  const auto rows = static_cast<int64_t>(targets.size());
  Floats stats;
  for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 4}, {4, kVocab}}) {
    Floats part;
    for (int64_t row = 0; row < rows; ++row) {
      const auto at = logits.begin() + row * kVocab;
      part.insert(part.end(), at + first, at + end);
    }
    Output of_part(3 * rows);
    const CrossEntropy<float> of{.rows = rows,
                                 .columns = end - first,
                                 .logits = part.data(),
                                 .targets = targets.data(),
                                 .statistics = of_part.data(),
                                 .first = first};
    run([&](Stream& s) { of.stats(s); });
    append(stats, of_part);
  }
  Output lse(rows);
  Output loss(2);
  run([&](Stream& s) {
    cross_entropy_merge(s, {.stats = stats.data(),
                            .targets = targets.data(),
                            .lse = lse.data(),
                            .loss = loss.data(),
                            .parts = 2,
                            .rows = rows,
                            .scale = kRowScale,
                            .accumulate = false});
  });
  return {lse.values(), loss.values(), {}};
}

TEST(CrossEntropy, RowsWithoutATargetAddNothing) {
  const Ints targets = {-1, 3, 10, -1, -1, 0, -1};
  Floats logits = random_floats("logits", static_cast<int64_t>(targets.size()) * kVocab, 3.0);
  logits[3 * kVocab] = kNan;
  Floats kept_logits;
  Ints kept_targets;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] >= 0) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(r) * kVocab;
      kept_logits.insert(kept_logits.end(), row, row + kVocab);
      kept_targets.push_back(targets[r]);
    }
  }
  const Result kept = whole(kept_logits, kept_targets);
  const Result all = whole(logits, targets);
  const Result parts = in_parts(logits, targets);
  EXPECT_GT(kept.loss[0], 0.1F);
  EXPECT_FLOAT_EQ(all.loss[0], kept.loss[0]);
  EXPECT_FLOAT_EQ(parts.loss[0], kept.loss[0]);
  EXPECT_EQ(all.loss[1], kept.loss[1]);
  EXPECT_EQ(parts.loss[1], kept.loss[1]);
  size_t row_of_kept = 0;
  for (size_t r = 0; r < targets.size(); ++r) {
    const bool ignored = targets[r] < 0;
    for (size_t v = 0; v < kVocab; ++v) {
      const float expected = ignored ? 0.0F : kept.dlogits[row_of_kept * kVocab + v];
      EXPECT_EQ(all.dlogits[r * kVocab + v], expected) << r << " " << v;
    }
    if (!ignored) {
      EXPECT_EQ(all.lse[r], kept.lse[row_of_kept]);
      EXPECT_FLOAT_EQ(parts.lse[r], kept.lse[row_of_kept++]);
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
