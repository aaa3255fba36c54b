#include "kernels/class_token.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

const std::vector<SequenceSize> kSequences = {{0, 3, 5}, {2, 0, 5},    {3, 4, 0},   {1, 1, 1},
                                              {5, 7, 3}, {3, 64, 130}, {33, 5, 259}};

int64_t elements_of(const SequenceSize& size) {
  return size.batch * size.sequence * size.n;
}

TEST(Prepend, ForwardPutsTheTokenFirst) {
  for (const SequenceSize& size : kSequences) {
    const auto x = random_floats("x", elements_of(size));
    const auto token = random_floats("token", size.n);
    Output y(elements_of(size) + size.batch * size.n);
    run([&](Stream& s) { prepend_forward(s, x.data(), token.data(), y.data(), size); });
    size_t i = 0;
    for (int64_t b = 0; b < size.batch; ++b) {
      for (int64_t p = 0; p <= size.sequence; ++p) {
        for (int64_t j = 0; j < size.n; ++j, ++i) {
          const auto of_x = static_cast<size_t>((b * size.sequence + p - 1) * size.n + j);
          ASSERT_EQ(y[i], p == 0 ? token[static_cast<size_t>(j)] : x[of_x]) << b << " " << p;
        }
      }
    }
  }
}

TEST(Prepend, BackwardSumsTheTokens) {
  for (const SequenceSize& size : kSequences) {
    const auto dy = random_floats("dy", elements_of(size) + size.batch * size.n);
    const auto before = random_floats("before", size.n);
    Output dx(elements_of(size));
    Output fresh(size.n);
    Output added(before);
    run([&](Stream& s) {
      for (const bool accumulate : {false, true}) {
        prepend_backward<float>(s, {.dy = dy.data(),
                                    .dx = dx.data(),
                                    .dtoken = accumulate ? added.data() : fresh.data(),
                                    .size = size,
                                    .accumulate = accumulate});
      }
    });
    Doubles sums(static_cast<size_t>(size.n), 0.0);
    size_t i = 0;
    size_t of_dx = 0;
    for (int64_t b = 0; b < size.batch; ++b) {
      for (int64_t p = 0; p <= size.sequence; ++p) {
        for (size_t j = 0; j < static_cast<size_t>(size.n); ++j, ++i) {
          if (p == 0) {
            sums[j] += static_cast<double>(dy[i]);
          } else {
            ASSERT_EQ(dx[of_dx++], dy[i]) << b << " " << p;
          }
        }
      }
    }
    expect_close(fresh, sums, 100.0 * kEpsilon, "dtoken");
    for (size_t j = 0; j < sums.size(); ++j) {
      sums[j] += static_cast<double>(before[j]);
    }
    expect_close(added, sums, 100.0 * kEpsilon, "dtoken accumulated");
  }
}

TEST(First, TakesTheFirstPositionAndGivesItsGradient) {
  for (const SequenceSize& size : kSequences) {
    for (const bool here : {false, true}) {
      if (here && size.sequence == 0) {
        continue;
      }
      const auto x = random_floats("x", elements_of(size));
      const auto dy = random_floats("dy", size.batch * size.n);
      Output y(size.batch * size.n);
      Output dx(elements_of(size));
      run([&](Stream& s) {
        first_forward(s, x.data(), y.data(), size, here);
        first_backward(s, dy.data(), dx.data(), size, here);
      });
      for (int64_t i = 0; i < elements_of(size); ++i) {
        const int64_t position = i / size.n % size.sequence;
        const int64_t row = i / size.n / size.sequence * size.n + i % size.n;
        const bool taken = here && position == 0;
        ASSERT_EQ(dx[static_cast<size_t>(i)], taken ? dy[static_cast<size_t>(row)] : 0.0F) << i;
        if (position == 0) {
          ASSERT_EQ(y[static_cast<size_t>(row)], here ? x[static_cast<size_t>(i)] : 0.0F) << i;
        }
      }
      if (size.sequence == 0) {
        EXPECT_EQ(y.values(), Floats(y.size(), 0.0F));
      }
    }
  }
}

TEST(Prepend, GradientHasTheSameBitsForAnyTeam) {
  const SequenceSize size{37, 3, 517};
  const auto dy = random_floats("dy", elements_of(size) + size.batch * size.n);
  expect_same_bits([&](int threads) {
    Output dx(elements_of(size));
    Output dtoken(size.n);
    run(
        [&](Stream& s) {
          prepend_backward<float>(s, {.dy = dy.data(),
                                      .dx = dx.data(),
                                      .dtoken = dtoken.data(),
                                      .size = size,
                                      .accumulate = false});
        },
        threads);
    return all_of(dx, dtoken);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
