#include "kernels/embedding.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

constexpr float kEmbeddingScale = 1.75F;

void gradient_of(Stream& stream, const Ints& tokens, const Floats& dy, Output& dtable,
                 const EmbeddingSize& size, bool accumulate = false) {
  embedding_backward<float>(stream, {.tokens = tokens.data(),
                                     .dy = dy.data(),
                                     .dtable = dtable.data(),
                                     .size = size,
                                     .scale = kEmbeddingScale,
                                     .accumulate = accumulate});
}

TEST(Embedding, ForwardPicksScaledRows) {
  for (const EmbeddingSize size : {EmbeddingSize{0, 5, 3},
                                   {7, 5, 0},
                                   {101, 17, 37},
                                   {101, 17, 36},
                                   {9, 5, 264},
                                   {300, 9, 5}}) {
    const auto tokens = random_tokens("tokens", size.tokens, size.vocab);
    const auto table = random_floats("table", size.vocab * size.hidden);
    Output y(size.tokens * size.hidden);
    run([&](Stream& stream) {
      embedding_forward(stream, tokens.data(), table.data(), y.data(), size, kEmbeddingScale);
    });
    for (int64_t i = 0; i < size.tokens * size.hidden; ++i) {
      const int64_t token = tokens[static_cast<size_t>(i / size.hidden)];
      ASSERT_EQ(
          y[static_cast<size_t>(i)],
          kEmbeddingScale * table[static_cast<size_t>(token * size.hidden + i % size.hidden)]);
    }
  }
}

TEST(Embedding, BackwardAddsPerToken) {
  for (const EmbeddingSize size :
       {EmbeddingSize{0, 5, 3}, {7, 5, 0}, {101, 17, 37}, {300, 9, 259}}) {
    const auto tokens = random_tokens("tokens", size.tokens, size.vocab - 1);  // one is absent
    const auto dy = random_floats("dy", size.tokens * size.hidden);
    const auto before = random_floats("before", size.vocab * size.hidden);
    Doubles expected(before.size(), 0.0);
    for (int64_t i = 0; i < size.tokens * size.hidden; ++i) {
      const int64_t token = tokens[static_cast<size_t>(i / size.hidden)];
      expected[static_cast<size_t>(token * size.hidden + i % size.hidden)] +=
          static_cast<double>(kEmbeddingScale) * static_cast<double>(dy[static_cast<size_t>(i)]);
    }
    Output fresh(size.vocab * size.hidden);
    Output added(before);
    run([&](Stream& stream) {
      gradient_of(stream, tokens, dy, fresh, size);
      gradient_of(stream, tokens, dy, added, size, true);
    });
    expect_close(fresh, expected, 100.0 * kEpsilon, "dtable");
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] += static_cast<double>(before[i]);
    }
    expect_close(added, expected, 100.0 * kEpsilon, "dtable accumulated");
  }
}

// One part of the rows is empty; every rank's y has zeros for the others' tokens.
TEST(Embedding, PartsOfTheTableMakeUpTheWhole) {
  const EmbeddingSize whole = {101, 17, 37};
  const auto tokens = random_tokens("tokens", whole.tokens, whole.vocab);
  const auto table = random_floats("table", whole.vocab * whole.hidden);
  const auto dy = random_floats("dy", whole.tokens * whole.hidden);
  Output y(whole.tokens * whole.hidden);
  Output dtable(whole.vocab * whole.hidden);
  run([&](Stream& s) {
    embedding_forward(s, tokens.data(), table.data(), y.data(), whole, kEmbeddingScale);
    gradient_of(s, tokens, dy, dtable, whole);
  });
  Floats sum(y.size(), 0.0F);
  Floats all_dtable;
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{0, 6}, {6, 6}, {6, 7}, {7, 17}, {17, 17}}) {
    const EmbeddingSize size = {whole.tokens, end - begin, whole.hidden, begin};
    const float* part = table.data() + begin * whole.hidden;
    Output part_y(whole.tokens * whole.hidden);
    Output part_dtable(size.vocab * whole.hidden);
    run([&](Stream& s) {
      embedding_forward(s, tokens.data(), part, part_y.data(), size, kEmbeddingScale);
      gradient_of(s, tokens, dy, part_dtable, size);
    });
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += part_y[i];
    }
    append(all_dtable, part_dtable);
  }
  EXPECT_EQ(sum, y.values());  // one rank has the row, the others add zeros
  EXPECT_EQ(all_dtable, dtable.values());
}

TEST(Embedding, GradientHasTheSameBitsForAnyTeam) {
  const EmbeddingSize size = {501, 11, 517};
  const auto tokens = random_tokens("tokens", size.tokens, size.vocab);
  const auto dy = random_floats("dy", size.tokens * size.hidden);
  expect_same_bits([&](int threads) {
    Output dtable(size.vocab * size.hidden);
    run([&](Stream& stream) { gradient_of(stream, tokens, dy, dtable, size); }, threads);
    return dtable.values();
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
