#include "train/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/check.h"
#include "temporary_folder.h"

namespace hidup {
namespace {

using testing::ElementsAre;

std::vector<int64_t> order_of(int64_t size, const RandomStream& stream) {
  const Permutation permutation(size, stream);
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::transform(order.begin(), order.end(), order.begin(), permutation);
  return order;
}

struct Filled {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
  bool operator==(const Filled&) const = default;
};

Filled fill(const Batches& batches, int64_t first, int64_t count) {
  Samples samples = batches.read(first, count);
  EXPECT_TRUE(samples.images.empty());
  return {std::move(samples.tokens), std::move(samples.targets)};
}

// A corpus whose byte i is i.
class CountingCorpus : public testing::Test {
 protected:
  std::shared_ptr<const Corpus> corpus(int64_t tokens) const {
    std::string content(static_cast<size_t>(tokens), '\0');
    std::iota(content.begin(), content.end(), '\0');
    return std::make_shared<const Corpus>(
        CorpusOptions{"text", {folder_.write("corpus", content)}});
  }

  std::unique_ptr<Batches> batches(int64_t tokens, int64_t sequence, uint64_t seed) const {
    const auto all = corpus(tokens);
    return corpus_batches(all, {0, windows(all->summary(), sequence)}, sequence, seed);
  }

 private:
  TemporaryFolder folder_;
};

TEST(Permutation, IsABijectionOfEverySize) {
  std::vector<int64_t> sizes(300);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {1023, 1024, 1025, 4096, 4097, 30011});
  for (const int64_t size : sizes) {
    std::vector<int64_t> order = order_of(size, random_stream(7, "data/order", 3));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(order[static_cast<size_t>(i)], i) << "size " << size;
    }
  }
}

TEST(Permutation, WorksForHugeSizes) {
  const int64_t size = (int64_t{1} << 61) + 5;
  const Permutation permutation(size, random_stream(7, "data/order", 0));
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t value = permutation(size - 1 - i);
    EXPECT_GE(value, 0);
    EXPECT_LT(value, size);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_THROW(permutation(size), Error);
  EXPECT_THROW(Permutation(0, RandomStream{}), Error);
}

// Over many epochs every element comes equally often to every place: chi-squared of each table, for
// sizes that fill their power of four and sizes that do not.
TEST(Permutation, IsUniform) {
  for (const int64_t size : {2, 3, 4, 5, 16, 20}) {
    constexpr int64_t kEpochs = 4000;
    std::vector<int64_t> counts(static_cast<size_t>(size * size));
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<int64_t> order = order_of(size, random_stream(1, "data/order", epoch));
      for (int64_t place = 0; place < size; ++place) {
        ++counts[static_cast<size_t>(place * size + order[static_cast<size_t>(place)])];
      }
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
    double chi_squared = 0.0;
    for (const int64_t count : counts) {
      const double off = static_cast<double>(count) - expected;
      chi_squared += off * off / expected;
    }
    // The mean is (size - 1)^2; four standard deviations of about sqrt(2) * (size - 1) are allowed.
    const auto freedom = static_cast<double>((size - 1) * (size - 1));
    EXPECT_LT(chi_squared, freedom + 4.0 * std::sqrt(2.0 * freedom) + 4.0) << "size " << size;
  }
}

TEST_F(CountingCorpus, EachWindowOncePerEpoch) {
  constexpr int64_t kSequence = 4;
  // (40 - 1) / 4 = 9 windows: a tenth would lack its last target.
  const std::unique_ptr<Batches> data = batches(40, kSequence, 7);
  std::vector<std::vector<int32_t>> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Filled filled = fill(*data, epoch * 9, 9);
    std::vector<int32_t> starts;
    for (size_t i = 0; i < filled.tokens.size(); ++i) {
      EXPECT_EQ(filled.targets[i], filled.tokens[i] + 1);
      if (i % kSequence == 0) {
        starts.push_back(filled.tokens[i]);
      } else {
        EXPECT_EQ(filled.tokens[i], filled.tokens[i - 1] + 1);
      }
    }
    epochs.push_back(starts);
    std::sort(starts.begin(), starts.end());
    EXPECT_THAT(starts, ElementsAre(0, 4, 8, 12, 16, 20, 24, 28, 32));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST_F(CountingCorpus, PartsEqualTheWhole) {
  const std::unique_ptr<Batches> data = batches(40, 4, 7);
  // Samples 7 .. 16 reach into the second epoch.
  const Filled whole = fill(*data, 7, 10);
  Filled parts = fill(*data, 7, 3);
  const Filled rest = fill(*data, 10, 7);
  parts.tokens.insert(parts.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  parts.targets.insert(parts.targets.end(), rest.targets.begin(), rest.targets.end());
  EXPECT_EQ(whole, parts);
}

TEST_F(CountingCorpus, OrderDependsOnTheSeedOnly) {
  EXPECT_EQ(fill(*batches(200, 3, 7), 0, 66), fill(*batches(200, 3, 7), 0, 66));
  EXPECT_NE(fill(*batches(200, 3, 7), 0, 66), fill(*batches(200, 3, 8), 0, 66));
}

TEST_F(CountingCorpus, APartOfTheWindows) {
  const auto all = corpus(40);  // 9 windows of 4
  const Filled shuffled = fill(*corpus_batches(all, {2, 5}, 4, 7), 0, 5);
  std::set<int32_t> starts;
  for (size_t i = 0; i < shuffled.tokens.size(); i += 4) {
    starts.insert(shuffled.tokens[i]);
  }
  EXPECT_THAT(starts, ElementsAre(8, 12, 16, 20, 24));
  const Filled ordered = fill(*ordered_batches(all, {7, 2}, 4), 0, 3);
  EXPECT_THAT(ordered.tokens, ElementsAre(28, 29, 30, 31, 32, 33, 34, 35, 28, 29, 30, 31));
  EXPECT_EQ(ordered.targets[7], 36);
  EXPECT_THROW(ordered_batches(all, {7, 3}, 4), Error);
}

TEST_F(CountingCorpus, MustHoldOneWindow) {
  EXPECT_THAT(fill(*batches(6, 5, 7), 0, 1).targets, ElementsAre(1, 2, 3, 4, 5));
  try {
    batches(5, 5, 7);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "the data has 5 tokens, but one sequence takes model.sequence + 1 = 5 + 1 = 6");
  }
}

TEST(SyntheticBatches, FollowTheFormula) {
  const std::unique_ptr<Batches> data = synthetic_batches(31, 7, 11);
  const Filled filled = fill(*data, 1000000, 5);
  for (uint64_t i = 0; i < 5; ++i) {
    const RandomStream stream = random_stream(11, "data/synthetic", 1000000 + i);
    for (uint64_t p = 0; p < 7; ++p) {
      EXPECT_EQ(filled.tokens[i * 7 + p], (uint64_t{stream.word(p)} * 31) >> 32);
      EXPECT_EQ(filled.targets[i * 7 + p], (uint64_t{stream.word(p + 1)} * 31) >> 32);
    }
  }
}

TEST(SyntheticBatches, UseTheWholeVocabulary) {
  const Filled filled = fill(*synthetic_batches(5, 10, 7), 0, 100);
  const std::set<int32_t> seen(filled.tokens.begin(), filled.tokens.end());
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace hidup
