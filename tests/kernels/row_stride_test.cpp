// Matrices whose rows lie further apart than they are long, with NaN in between, have the results
// of dense ones.
#include "kernels/bias.h"
#include "kernels/matmul.h"
#include "losses.h"
#include "product_shapes.h"
#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

// The shape of a matrix whose rows of `columns` elements lie `stride` elements apart.
struct Rows {
  int64_t columns;
  int64_t stride;
};

template <typename T>
DeviceArray<T> with_padding(const DeviceArray<T>& dense, const Rows& rows) {
  DeviceArray<T> padded;
  for (size_t i = 0; i < dense.size(); i += static_cast<size_t>(rows.columns)) {
    const auto row = dense.begin() + static_cast<std::ptrdiff_t>(i);
    padded.insert(padded.end(), row, row + rows.columns);
    const DeviceArray<T> between(static_cast<size_t>(rows.stride - rows.columns), T(kNan));
    padded.insert(padded.end(), between.begin(), between.end());
  }
  return padded;
}

template <typename T>
DeviceArray<T> without_padding(const DeviceArray<T>& padded, const Rows& rows) {
  DeviceArray<T> dense;
  for (size_t i = 0; i < padded.size(); i += static_cast<size_t>(rows.stride)) {
    const auto row = padded.begin() + static_cast<std::ptrdiff_t>(i);
    dense.insert(dense.end(), row, row + rows.columns);
  }
  return dense;
}

// Checks that the elements between the rows are unchanged.
template <typename T>
void expect_padding_unwritten(const DeviceArray<T>& padded, const Rows& rows) {
  for (size_t i = 0; i < padded.size(); ++i) {
    if (static_cast<int64_t>(i) % rows.stride >= rows.columns) {
      ASSERT_TRUE(std::isnan(float{padded[i]})) << "written between rows, at " << i;
    }
  }
}

// Sizes of several tiles; strides are odd, or those of padded rows.
constexpr Rows kRows[] = {{1, 2}, {7, 64}, {67, 67}, {131, 137}, {259, 320}, {320, 384}};

template <typename Element>
class RowStride : public ::testing::Test {
 protected:
  using Elements = DeviceArray<Element>;
  static Elements some(const std::string& purpose, int64_t n) {
    return Numbers<Element>(random_floats(purpose, n)).narrow;
  }
  // Differently aligned addresses may change the order of sums.
  template <typename T>
  static void expect_same(const DeviceArray<T>& found, const DeviceArray<T>& dense, int64_t summed,
                          const char* what) {
    const double rounding = std::is_same_v<T, float> ? 0.0 : 2.0 * Rounding<T>::kRelative;
    expect_close(found, {dense.begin(), dense.end()},
                 rounding + kEpsilon * (8.0 + 2.0 * static_cast<double>(summed)), what);
  }
};

using AllElements = ::testing::Types<float, BFloat16, Float16>;
TYPED_TEST_SUITE(RowStride, AllElements);

TYPED_TEST(RowStride, OfTheMatricesOfAProduct) {
  for (const MatmulShape size : product_shapes({{131, 259, 33}, {300, 67, 129}})) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        SCOPED_TRACE(::testing::Message() << size.m << "x" << size.n << "x" << size.k << " "
                                          << transpose_a << transpose_b);
        const MatmulShape dense{size.m, size.n, size.k, transpose_a, transpose_b};
        MatmulShape padded = dense;
        padded.a_stride = dense.lda() + 5;
        padded.b_stride = dense.ldb() + 64;
        padded.c_stride = dense.ldc() + 3;
        const auto a = this->some("a", size.m * size.k);
        const auto b = this->some("b", size.k * size.n);
        const auto before = random_floats("c", size.m * size.n);
        const Rows of_c{dense.n, padded.c_stride};
        const auto padded_a = with_padding(a, {dense.lda(), padded.a_stride});
        const auto padded_b = with_padding(b, {dense.ldb(), padded.b_stride});
        GuardedOutput<TypeParam> c(size.m * size.n);
        Output sums(before);
        GuardedOutput<TypeParam> padded_c(size.n == 0 ? 0 : size.m * padded.c_stride);
        Output padded_sums(with_padding(before, of_c));
        run([&](Stream& s) {
          matmul(s, a.data(), b.data(), c.data(), dense, false);
          matmul(s, a.data(), b.data(), sums.data(), dense, true);
          matmul(s, padded_a.data(), padded_b.data(), padded_c.data(), padded, false);
          matmul(s, padded_a.data(), padded_b.data(), padded_sums.data(), padded, true);
        });
        this->expect_same(without_padding(padded_c.values(), of_c), c.values(), size.k, "c");
        this->expect_same(without_padding(padded_sums.values(), of_c), sums.values(), size.k,
                          "c accumulated");
      }
    }
  }
}

TYPED_TEST(RowStride, OfAProductWithItsBias) {
  for (const int64_t summed : {33, 0}) {
    for (const Rows& rows : kRows) {
      const int64_t m = 131;
      SCOPED_TRACE(::testing::Message() << rows.columns << " of " << rows.stride);
      const MatmulShape dense{m, rows.columns, summed, false, true};
      MatmulShape padded = dense;
      padded.c_stride = rows.stride;
      const auto a = this->some("a", m * summed);
      const auto b = this->some("b", summed * rows.columns);
      const auto bias = this->some("bias", rows.columns);
      GuardedOutput<TypeParam> y(m * rows.columns);
      GuardedOutput<TypeParam> padded_y(m * rows.stride);
      run([&](Stream& s) {
        matmul_bias(s, a.data(), b.data(), y.data(), dense, {.bias = bias.data()});
        matmul_bias(s, a.data(), b.data(), padded_y.data(), padded, {.bias = bias.data()});
      });
      this->expect_same(without_padding(padded_y.values(), rows), y.values(), summed, "y");
    }
  }
}

TYPED_TEST(RowStride, OfABias) {
  for (const Rows& rows : kRows) {
    const int64_t m = 131;
    SCOPED_TRACE(::testing::Message() << rows.columns << " of " << rows.stride);
    const auto x = this->some("x", m * rows.columns);
    const auto bias = this->some("bias", rows.columns);
    const auto padded_x = with_padding(x, rows);
    GuardedOutput<TypeParam> y(m * rows.columns);
    GuardedOutput<TypeParam> padded_y(m * rows.stride);
    Output db(rows.columns);
    Output padded_db(rows.columns);
    run([&](Stream& s) {
      bias_forward(s, x.data(), bias.data(), y.data(), m, rows.columns);
      bias_forward(s, padded_x.data(), bias.data(), padded_y.data(), m, rows.columns, rows.stride);
      bias_backward(s, x.data(), db.data(), m, rows.columns, false);
      bias_backward(s, padded_x.data(), padded_db.data(), m, rows.columns, false, rows.stride);
    });
    EXPECT_EQ(without_padding(padded_y.values(), rows), y.values());
    expect_padding_unwritten(padded_y.values(), rows);
    EXPECT_EQ(padded_db.values(), db.values());
  }
}

// Results of the cross entropy, with its gradient apart and in place.
template <typename Element>
struct LossOf {
  Floats lse, loss, stats;
  DeviceArray<Element> gradient, in_place;
};

template <typename Element>
LossOf<Element> loss_of(const DeviceArray<Element>& logits, const Ints& targets, const Rows& rows) {
  const auto count = static_cast<int64_t>(targets.size());
  Output lse(count);
  Output loss(2);
  Output stats(3 * count);
  GuardedOutput<Element> gradient(static_cast<int64_t>(logits.size()));
  GuardedOutput<Element> in_place(logits);
  const CrossEntropy<Element> of{.rows = count,
                                 .columns = rows.columns,
                                 .logits = logits.data(),
                                 .targets = targets.data(),
                                 .scale = 0.125F,
                                 .lse = lse.data(),
                                 .loss = loss.data(),
                                 .dlogits = gradient.data(),
                                 .statistics = stats.data(),
                                 .stride = rows.stride};
  run([&](Stream& s) {
    of.forward(s);
    of.stats(s);
    of.backward(s);
    of.backward_in_place(s, in_place.data());
  });
  return {lse.values(), loss.values(), stats.values(), gradient.values(), in_place.values()};
}

TYPED_TEST(RowStride, OfLogits) {
  for (const Rows& rows : kRows) {
    const int64_t count = 33;
    SCOPED_TRACE(::testing::Message() << rows.columns << " of " << rows.stride);
    const auto logits = this->some("logits", count * rows.columns);
    Ints targets = random_tokens("targets", count, rows.columns);
    targets[4] = -1;
    const auto dense = loss_of(logits, targets, {rows.columns, 0});
    const auto padded = loss_of(with_padding(logits, rows), targets, rows);
    EXPECT_EQ(padded.lse, dense.lse);
    EXPECT_EQ(padded.loss, dense.loss);
    EXPECT_EQ(padded.stats, dense.stats);
    EXPECT_EQ(without_padding(padded.gradient, rows), dense.gradient);
    EXPECT_EQ(without_padding(padded.in_place, rows), dense.in_place);
    expect_padding_unwritten(padded.gradient, rows);
    expect_padding_unwritten(padded.in_place, rows);
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
