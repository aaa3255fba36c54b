// Infinite or NaN logits: cross entropy with a running maximum must neither turn finite results
// into NaN nor hide infinite ones.
#include <cmath>
#include <limits>
#include <utility>

#include "kernel_test.h"
#include "kernels/cross_entropy.h"

namespace hidup::kernels::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct InfiniteLogits {
  Floats logits;      // [rows, vocab]
  size_t finite = 0;  // the first rows, which have a loss
};

// Returns rows in which -infinity excludes the first class, the last, or all but one; then rows
// without a loss, of -infinity alone, of infinity or of NaN.
InfiniteLogits infinite_logits(int64_t vocab) {
  const auto columns = static_cast<size_t>(vocab);
  const auto some = random_floats("some", vocab, 3.0);
  InfiniteLogits made;
  const auto add = [&](const Floats& row) {
    made.logits.insert(made.logits.end(), row.begin(), row.end());
  };
  for (const auto& [begin, end] :
       {std::pair<size_t, size_t>{1, columns}, {0, columns - 1}, {columns / 2, columns / 2 + 1}}) {
    Floats row(columns, -kInfinity);
    for (size_t v = begin; v < end; ++v) {
      row[v] = some[v];
    }
    add(row);
    ++made.finite;
  }
  for (const auto& [all, last] : {std::pair<float, float>{-kInfinity, -kInfinity},
                                  {-kInfinity, kNan},
                                  {kNan, kNan},
                                  {0.0F, kNan},
                                  {0.0F, kInfinity},
                                  {kInfinity, 0.0F}}) {
    Floats row(columns, all);
    row[columns - 1] = last;
    add(row);
  }
  return made;
}

float loss_of(const Floats& logits, const Ints& targets, int64_t rows, int64_t vocab, float* lse) {
  Output loss(2);
  run([&](Stream& s) {
    cross_entropy_forward<float>(
        s, {logits.data(), targets.data(), lse, loss.data(), rows, vocab, 1.0F, false});
  });
  return loss[0];
}

double log_sum_exp(const Floats& logits, size_t begin, size_t end) {
  double sum = 0.0;
  for (size_t i = begin; i < end; ++i) {
    sum += std::exp(static_cast<double>(logits[i]));
  }
  return std::log(sum);
}

class CrossEntropyOfInfiniteLogits : public ::testing::TestWithParam<int64_t> {};

TEST_P(CrossEntropyOfInfiniteLogits, HasALossWhereOneIsFinite) {
  const int64_t vocab = GetParam();
  const auto columns = static_cast<size_t>(vocab);
  const auto [logits, finite] = infinite_logits(vocab);
  const auto rows = static_cast<int64_t>(logits.size() / columns);
  const Ints targets(static_cast<size_t>(rows), static_cast<int32_t>(vocab / 2));
  const OnDevice<StepState> state({.loss_scale = 1.0F});
  Output lse(rows);
  Output stats(3 * rows);
  Output dlogits(rows * vocab);
  const auto with_loss = static_cast<int64_t>(finite);
  EXPECT_TRUE(std::isfinite(loss_of(logits, targets, with_loss, vocab, lse.data())));
  EXPECT_TRUE(std::isnan(loss_of(logits, targets, rows, vocab, lse.data())));
  run([&](Stream& s) {
    cross_entropy_stats<float>(s, {logits.data(), targets.data(), stats.data(), rows, vocab, 0});
    cross_entropy_backward<float>(s, {logits.data(), targets.data(), lse.data(), dlogits.data(),
                                      rows, vocab, 0, 1.0F, state.get()});
  });
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    SCOPED_TRACE(::testing::Message() << "row " << r);
    const size_t begin = r * columns;
    if (r < finite) {
      EXPECT_NEAR(static_cast<double>(lse[r]), log_sum_exp(logits, begin, begin + columns), 1e-5);
      EXPECT_EQ(stats[3 * r], lse[r]);
    } else {
      EXPECT_TRUE(std::isnan(lse[r]) && std::isnan(stats[3 * r])) << lse[r];
    }
    for (size_t i = begin; i < begin + columns; ++i) {
      const bool ruled_out = logits[i] == -kInfinity;
      ASSERT_TRUE(r >= finite ? std::isnan(dlogits[i]) : !ruled_out || dlogits[i] == 0.0F)
          << i - begin << " " << dlogits[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, CrossEntropyOfInfiniteLogits,
                         ::testing::Values(7, 8, 1028, 3001));

}  // namespace
}  // namespace hidup::kernels::testing
