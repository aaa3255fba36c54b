#include "kernel_test.h"
#include "kernels/activations.h"
#include "kernels/add.h"
#include "kernels/bias.h"

namespace hidup::kernels::testing {
namespace {

TEST(Add, AddsAlsoInPlace) {
  for (const int64_t n : {0, 1, 1037, 20011}) {
    const auto a = random_floats("a", n);
    const auto b = random_floats("b", n);
    Output y(n);
    Output in_place(a);
    run([&](Stream& stream) {
      add_forward(stream, a.data(), b.data(), y.data(), n);
      add_forward(stream, in_place.data(), b.data(), in_place.data(), n);
    });
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(y[i], a[i] + b[i]);
      ASSERT_EQ(in_place[i], a[i] + b[i]);
    }
  }
}

// Tensors begin at aligned addresses; parts of them may not.
TEST(Add, AddsAtAnyAddress) {
  const int64_t n = 1037;
  const auto a = random_floats("a", n);
  const auto b = random_floats("b", n);
  for (const auto& [of_a, of_b, of_y] : {std::tuple{1, 0, 0}, {0, 2, 0}, {0, 0, 3}, {1, 1, 1}}) {
    Output y(n);
    run([&, of_a = of_a, of_b = of_b, of_y = of_y](Stream& stream) {
      add_forward(stream, a.data() + of_a, b.data() + of_b, y.data() + of_y, n - 3);
    });
    for (size_t i = 0; i < static_cast<size_t>(n - 3); ++i) {
      ASSERT_EQ(y[i + static_cast<size_t>(of_y)],
                a[i + static_cast<size_t>(of_a)] + b[i + static_cast<size_t>(of_b)]);
    }
    for (size_t i = 0; i < 3; ++i) {
      const size_t beside = i < static_cast<size_t>(of_y) ? i : static_cast<size_t>(n) - 3 + i;
      EXPECT_TRUE(std::isnan(y[beside]));
    }
  }
}

TEST(Relu, ForwardAndBackward) {
  for (const int64_t n : {0, 1, 1037, 20011}) {
    const auto x = random_floats("x", n);
    const auto dy = random_floats("dy", n);
    Output y(n);
    Output dx(n);
    Output in_place(dy);
    run([&](Stream& stream) {
      relu_forward(stream, x.data(), y.data(), n);
      relu_backward(stream, y.data(), dy.data(), dx.data(), n);
      relu_backward(stream, y.data(), in_place.data(), in_place.data(), n);
    });
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], x[i] > 0.0F ? x[i] : 0.0F);
      ASSERT_EQ(dx[i], x[i] > 0.0F ? dy[i] : 0.0F);
      ASSERT_EQ(in_place[i], dx[i]);
    }
  }
}

TEST(Relu, KeepsNan) {
  const Floats x = {kNan, 0.0F};
  Output y(2);
  run([&](Stream& stream) { relu_forward(stream, x.data(), y.data(), 2); });
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0.0F);
}

TEST(Bias, AddsToEveryRow) {
  for (const auto& [rows, n] :
       {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {1, 1}, {37, 67}, {2000, 3}}) {
    const auto x = random_floats("x", rows * n);
    const auto b = random_floats("b", n);
    Output y(rows * n);
    Output in_place(x);
    run([&, rows = rows, n = n](Stream& stream) {
      bias_forward(stream, x.data(), b.data(), y.data(), rows, n);
      bias_forward(stream, in_place.data(), b.data(), in_place.data(), rows, n);
    });
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(y[i], x[i] + b[i % b.size()]);
      ASSERT_EQ(in_place[i], y[i]);
    }
  }
}

TEST(Bias, AddsAtAnyAddress) {
  const int64_t rows = 5;
  const int64_t n = 12;
  const auto x = random_floats("x", rows * n + 1);
  const auto b = random_floats("b", n + 1);
  for (const auto& [of_x, of_b] : {std::pair{0, 0}, {1, 0}, {0, 1}}) {
    Output y(rows * n);
    run([&, of_x = of_x, of_b = of_b](Stream& stream) {
      bias_forward(stream, x.data() + of_x, b.data() + of_b, y.data(), rows, n);
    });
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_EQ(y[i], x[i + static_cast<size_t>(of_x)] +
                          b[i % static_cast<size_t>(n) + static_cast<size_t>(of_b)]);
    }
  }
}

TEST(Bias, GradientIsTheSumOfTheRows) {
  for (const auto& [rows, n] :
       {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {1, 1}, {37, 67}, {1500, 130}, {3, 4500}}) {
    const auto dy = random_floats("dy", rows * n);
    const auto before = random_floats("before", n);
    Doubles sum(static_cast<size_t>(n), 0.0);
    for (size_t i = 0; i < dy.size(); ++i) {
      sum[i % sum.size()] += static_cast<double>(dy[i]);
    }
    Doubles accumulated = sum;
    for (size_t j = 0; j < sum.size(); ++j) {
      accumulated[j] += static_cast<double>(before[j]);
    }
    Output db(n);
    Output added(before);
    run([&, rows = rows, n = n](Stream& stream) {
      bias_backward(stream, dy.data(), db.data(), rows, n, false);
      bias_backward(stream, dy.data(), added.data(), rows, n, true);
    });
    const double tolerance = 8.0 * kEpsilon * std::sqrt(static_cast<double>(rows) + 1.0);
    expect_close(db, sum, tolerance, "db");
    expect_close(added, accumulated, tolerance, "db accumulated");
  }
}

TEST(Bias, GradientHasTheSameBitsForAnyTeam) {
  const int64_t rows = 1501;
  const int64_t n = 131;
  const auto dy = random_floats("dy", rows * n);
  expect_same_bits([&](int threads) {
    Output db(n);
    run([&](Stream& s) { bias_backward(s, dy.data(), db.data(), rows, n, false); }, threads);
    return db.values();
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
