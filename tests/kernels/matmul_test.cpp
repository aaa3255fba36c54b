#include "kernels/matmul.h"

#include "kernel_test.h"
#include "product_shapes.h"

namespace hidup::kernels::testing {
namespace {

Doubles product(const Floats& a, const Floats& b, const MatmulShape& shape) {
  const int64_t m = shape.m;
  const int64_t n = shape.n;
  const int64_t k = shape.k;
  Doubles c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      const double left =
          static_cast<double>(a[static_cast<size_t>(shape.transpose_a ? l * m + i : i * k + l)]);
      for (int64_t j = 0; j < n; ++j) {
        c[static_cast<size_t>(i * n + j)] +=
            left *
            static_cast<double>(b[static_cast<size_t>(shape.transpose_b ? j * k + l : l * n + j)]);
      }
    }
  }
  return c;
}

void expect_product(const MatmulShape& size) {
  const auto a = random_floats("a", size.m * size.k);
  const auto b = random_floats("b", size.k * size.n);
  const auto before = random_floats("c", size.m * size.n);
  Output c(size.m * size.n);
  Output added(before);
  run([&](Stream& s) {
    matmul(s, a.data(), b.data(), c.data(), size, false);
    matmul(s, a.data(), b.data(), added.data(), size, true);
  });
  Doubles expected = product(a, b, size);
  // Sums of k products of size 1 reach sqrt(k), and each of k additions rounds: the errors add up
  // to about k/2 roundings, and the worst of all elements has several times as much.
  const double tolerance = kEpsilon * (8.0 + 2.0 * static_cast<double>(size.k));
  expect_close(c, expected, tolerance, "c");
  for (size_t i = 0; i < before.size(); ++i) {
    expected[i] += static_cast<double>(before[i]);
  }
  expect_close(added, expected, tolerance, "c accumulated");
}

TEST(Matmul, AgreesWithTheDoubleProduct) {
  // Some sums are long.
  for (const MatmulShape size : product_shapes({{130, 67, 33}, {5, 9, 3001}, {1, 300, 20}})) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        SCOPED_TRACE(::testing::Message() << size.m << "x" << size.n << "x" << size.k << " "
                                          << transpose_a << transpose_b);
        expect_product({size.m, size.n, size.k, transpose_a, transpose_b});
      }
    }
  }
}

TEST(Matmul, HasTheSameBitsForAnyTeam) {
  for (const MatmulShape size : {MatmulShape{70, 50, 5196}, {300, 257, 65}, {1024, 700, 16}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const auto a = random_floats("a", size.m * size.k);
        const auto b = random_floats("b", size.k * size.n);
        expect_same_bits([&](int threads) {
          Output c(size.m * size.n);
          run(
              [&](Stream& s) {
                matmul(s, a.data(), b.data(), c.data(),
                       {size.m, size.n, size.k, transpose_a, transpose_b}, false);
              },
              threads);
          return c.values();
        });
      }
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
