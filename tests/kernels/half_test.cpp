// Kernels of 16-bit elements that read vectors or multiply tiles, against those of floats on the
// same values, at the sizes that select the method.
#include <array>
#include <numeric>

#include "kernel_test.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/residual_norm.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "norms.h"
#include "ways_of_halves.h"

namespace hidup::kernels::testing {
namespace {

template <typename Element>
constexpr double kRelative = Rounding<Element>::kRelative;
template <>
constexpr double kRelative<float> = 0.0;

// Checks |element - float| <= a rounding to elements of (|float| + sizes[i]) plus `of_floats`
// roundings to floats of (1 + |float|): compilers may contract and reorder the two kernels'
// operations differently.
template <typename Element>
void expect_close(const Results<Element>& found, const Doubles& sizes, double of_floats,
                  const std::string& what) {
  for (size_t i = 0; i < found.wide.size(); ++i) {
    const auto wide = static_cast<double>(found.wide[i]);
    const double error = std::abs(static_cast<double>(float{found.narrow[i]}) - wide);
    const double bound = kRelative<Element> * (sizes[i] + std::abs(wide)) +
                         of_floats * kEpsilon * (1.0 + std::abs(wide));
    ASSERT_TRUE(error <= bound) << what << "[" << i << "] is " << float{found.narrow[i]}
                                << ", expected " << wide << " up to " << bound;
  }
}

template <typename Element>
void expect_rounded(const Results<Element>& found, const std::string& what,
                    double of_floats = 8.0) {
  expect_close(found, Doubles(found.wide.size(), 0.0), of_floats, what);
}

template <typename Element>
class Half : public ::testing::Test {};
TYPED_TEST_SUITE(Half, SixteenBits, );

// Lengths of rows: odd ones, and near those of a warp's and a block's vectors.
constexpr int64_t kLengths[] = {5, 8, 64, 768, 1024, 1032, 1500, 8192, 8200};

TYPED_TEST(Half, BiasAndLayerNorm) {
  for (const int64_t n : kLengths) {
    const int64_t rows = 77;
    NormOfBoth<TypeParam> norm(rows, n);
    Results<TypeParam> biased(rows * n);
    Results<float> db(n);
    run_both([&](Stream& s, auto of) {
      bias_forward(s, of(norm.x), of(norm.beta), of(biased), rows, n);
      bias_backward(s, of(norm.dy), of(db), rows, n, false);
      norm.of(of).forward(s);
      norm.of(of).backward(s);
    });
    expect_rounded(biased, "biased");
    expect_rounded(db, "db", 2.0 * rows);
    expect_rounded(norm.mean, "mean");
    expect_rounded(norm.rstd, "rstd");
    expect_rounded(norm.y, "y");
    expect_rounded(norm.dgamma, "dgamma", 4.0 * rows);
    expect_rounded(norm.dbeta, "dbeta", 2.0 * rows);
    expect_rounded(norm.dx, "dx");
  }
}

// Probabilities P and gradients dS of scores may be rounded to elements before they are multiplied.
// An element of y or dqkv then is off by a rounding of the sum of its products' sizes.
struct Sizes {
  Doubles y;
  Doubles dqkv;
};

Sizes sizes_of_sums(const Floats& qkv, const Floats& dy, const AttentionSize& size, bool causal) {
  const auto [batch, sequence, heads, kv_heads, head] = size;
  Sizes sizes{Doubles(dy.size(), 0.0), Doubles(qkv.size(), 0.0)};
  const auto product = [&](const float* a, const float* b) {
    return std::inner_product(a, a + size.head, b, 0.0);
  };
  for (int64_t query = 0; query < batch * heads * sequence; ++query) {
    const int64_t b = query / sequence / heads;
    const int64_t h = query / sequence % heads;
    const int64_t i = query % sequence;
    // Returns the start of a position's vectors: q, k, v in qkv, and y.
    const auto at = [&](int64_t s, int64_t which) {
      return (((b * size.sequence + s) * 3 + which) * size.heads + h) * size.head;
    };
    const int64_t at_y = ((b * sequence + i) * heads + h) * head;
    const int64_t keys = causal ? i + 1 : sequence;
    const double scale = 1.0 / std::sqrt(static_cast<double>(head));
    Doubles p;
    Doubles dp;
    for (int64_t j = 0; j < keys; ++j) {
      p.push_back(std::exp(scale * product(&qkv[at(i, 0)], &qkv[at(j, 1)])));
      dp.push_back(product(&dy[at_y], &qkv[at(j, 2)]));
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    const double d = dot(p, dp) / sum;
    for (int64_t j = 0; j < keys; ++j) {
      const double weight = p[j] / sum;
      const double ds = std::abs(weight * (dp[j] - d) * scale);
      for (int64_t l = 0; l < head; ++l) {
        sizes.y[at_y + l] += weight * std::abs(qkv[at(j, 2) + l]);
        sizes.dqkv[at(i, 0) + l] += ds * std::abs(qkv[at(j, 1) + l]);
        sizes.dqkv[at(j, 1) + l] += ds * std::abs(qkv[at(i, 0) + l]);
        sizes.dqkv[at(j, 2) + l] += weight * std::abs(dy[at_y + l]);
      }
    }
  }
  return sizes;
}

// The rows have a vector's length, but start at an unaligned address.
TYPED_TEST(Half, NormsOfRowsAtAnyAddress) {
  const int64_t rows = 41;
  const int64_t n = 264;
  const auto behind_one = [](const Floats& values) {
    Floats moved(1, kNan);
    moved.insert(moved.end(), values.begin(), values.end());
    return Numbers<TypeParam>(moved);
  };
  const auto x = behind_one(random_floats("x", rows * n, 2.0));
  const auto gamma = behind_one(random_floats("gamma", n));
  const auto beta = behind_one(random_floats("beta", n));
  const auto dy = behind_one(random_floats("dy", rows * n));
  const Numbers<TypeParam> zeros(Floats(static_cast<size_t>(rows * n + 1), 0.0F));
  Results<TypeParam> y(zeros);
  Results<TypeParam> sum(zeros);
  Results<TypeParam> dx(zeros);
  Results<float> mean(rows);
  Results<float> rstd(rows);
  Results<float> dgamma(n);
  Results<float> dbeta(n);
  run_both([&](Stream& s, auto of) {
    using Element = Pointee<decltype(of(y))>;
    residual_norm<Element>(s, {.branch = of(x) + 1,
                               .residual = of(dy) + 1,
                               .gamma = of(gamma) + 1,
                               .beta = of(beta) + 1,
                               .sum = of(sum) + 1,
                               .y = of(y) + 1,
                               .mean = of(mean),
                               .rstd = of(rstd),
                               .rows = rows,
                               .n = n,
                               .eps = 1e-5F});
    const Norm<Element> norm{.rows = rows,
                             .n = n,
                             .x = of(x) + 1,
                             .gamma = of(gamma) + 1,
                             .beta = of(beta) + 1,
                             .y = of(y) + 1,
                             .mean = of(mean),
                             .rstd = of(rstd),
                             .dy = of(dy) + 1,
                             .dx = of(dx) + 1,
                             .dgamma = of(dgamma),
                             .dbeta = of(dbeta)};
    norm.forward(s);
    norm.backward(s);
  });
  expect_rounded(sum, "sum");
  expect_rounded(y, "y");
  expect_rounded(dx, "dx");
  expect_rounded(mean, "mean");
  expect_rounded(rstd, "rstd");
  expect_rounded(dgamma, "dgamma", 4.0 * rows);
  expect_rounded(dbeta, "dbeta", 2.0 * rows);
  EXPECT_TRUE(float{y.narrow[0]} == 0.0F && float{sum.narrow[0]} == 0.0F && y.wide[0] == 0.0F);
}

TYPED_TEST(Half, RmsNorm) {
  for (const int64_t n : kLengths) {
    NormOfBoth<TypeParam> norm(77, n);
    run_both([&](Stream& s, auto of) {
      norm.of(of).centered(false).forward(s);
      norm.of(of).centered(false).backward(s);
    });
    const std::string rows_of_n = ", rows of " + std::to_string(n);
    expect_rounded(norm.y, "y" + rows_of_n);
    expect_rounded(norm.dx, "dx" + rows_of_n, 32.0);
    expect_rounded(norm.rstd, "rstd" + rows_of_n);
    expect_rounded(norm.dgamma, "dgamma" + rows_of_n, 64.0);
  }
}

TYPED_TEST(Half, SwigluAndRotary) {
  const RotarySize size{
      .batch = 2, .sequence = 9, .heads = 3, .head = 10, .first = 4, .theta = 10000.0};
  const int64_t n = size.batch * size.sequence * size.heads * size.head;
  const Numbers<TypeParam> gate(random_floats("gate", n, 4.0));
  const Numbers<TypeParam> up(random_floats("up", n));
  const Numbers<TypeParam> dy(random_floats("dy", n));
  Results<TypeParam> y(n);
  Results<TypeParam> dgate(n);
  Results<TypeParam> dup(n);
  Results<TypeParam> turned(n);
  Results<TypeParam> back(n);
  run_both([&](Stream& s, auto of) {
    using Element = Pointee<decltype(of(y))>;
    swiglu_forward<Element>(s, of(gate), of(up), of(y), n);
    swiglu_backward<Element>(
        s,
        {.gate = of(gate), .up = of(up), .dy = of(dy), .dgate = of(dgate), .dup = of(dup), .n = n});
    rotary_forward<Element>(s, of(up), of(turned), size);
    rotary_backward<Element>(s, of(up), of(back), size);
  });
  expect_rounded(y, "y");
  expect_rounded(dgate, "dgate");
  expect_rounded(dup, "dup");
  expect_rounded(turned, "turned");
  expect_rounded(back, "turned back");
}

template <typename Way>
class HalfAttention : public OnWay<Way> {};
TYPED_TEST_SUITE(HalfAttention, WaysOfHalves, );

TYPED_TEST(HalfAttention, AgreesWithThatOfFloats) {
  using HalfElement = typename TypeParam::Element;
  for (const AttentionSize size : {AttentionSize{2, 5, 3, 3, 4},
                                   {1, 1, 1, 1, 1},
                                   {1, 64, 1, 1, 64},
                                   {1, 131, 1, 1, 5},    // unaligned rows
                                   {2, 70, 2, 2, 33},    //
                                   {1, 150, 1, 1, 24},   //
                                   {1, 129, 1, 1, 128},  // the longer tiles
                                   {1, 67, 2, 2, 72},    //
                                   {1, 65, 1, 1, 136},   // too long for tiles
                                   {2, 0, 2, 2, 4},
                                   {2, 5, 0, 0, 4}}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << size.batch << " " << size.sequence << " " << size.heads
                                        << " " << size.head << " causal " << causal);
      const int64_t n = size.batch * size.sequence * size.heads * size.head;
      const Numbers<HalfElement> qkv(random_floats("qkv", 3 * n));
      Results<HalfElement> y(n);
      const Numbers<HalfElement> dy(random_floats("dy", n));
      Results<HalfElement> dqkv(3 * n);
      Results<float> lse(size.batch * size.heads * size.sequence);
      run_both([&](Stream& s, auto of) {
        using Element = Pointee<decltype(of(qkv))>;
        attention_forward<Element>(s, {.in = packed<const Element>(of(qkv), size),
                                       .y = of(y),
                                       .lse = of(lse),
                                       .size = size,
                                       .causal = causal});
      });
      const Sizes sizes = sizes_of_sums(qkv.wide, dy.wide, size, causal);
      expect_rounded(lse, "lse", 64.0);
      expect_close(y, sizes.y, 64.0, "y");
      const Numbers<HalfElement> read(y.narrow.values());
      run_both([&](Stream& s, auto of) {
        using Element = Pointee<decltype(of(qkv))>;
        attention_backward<Element>(s, {.in = packed<const Element>(of(qkv), size),
                                        .y = of(read),
                                        .lse = of(lse),
                                        .dy = of(dy),
                                        .grad = packed<Element>(of(dqkv), size),
                                        .size = size,
                                        .causal = causal});
      });
      expect_close(dqkv, sizes.dqkv, 128.0, "dqkv");
    }
  }
}

// The expected gradients add up those of heads with keys and values of their own.
TYPED_TEST(HalfAttention, HeadsShareKeysAndValues) {
  using HalfElement = typename TypeParam::Element;
  const AttentionSize shared = {.batch = 2, .sequence = 70, .heads = 4, .kv_heads = 2, .head = 9};
  AttentionSize own = shared;
  own.kv_heads = own.heads;
  const int64_t positions = shared.batch * shared.sequence;
  const int64_t n = positions * shared.heads * shared.head;
  const Numbers<HalfElement> q(random_floats("q", n));
  const Numbers<HalfElement> dy(random_floats("dy", n));
  const Floats few = random_floats("kv", positions * shared.kv_heads * shared.head);
  Floats many;
  // Maps element i of tensors with a key per head to the element of shared keys.
  const auto in_shared = [&](int64_t i) {
    const int64_t head = i / shared.head % shared.heads / 2;
    return (i / shared.head / shared.heads * shared.kv_heads + head) * shared.head +
           i % shared.head;
  };
  for (int64_t i = 0; i < n; ++i) {
    many.push_back(few[static_cast<size_t>(in_shared(i))]);
  }
  const auto computed = [&](const Floats& keys, const AttentionSize& size) {
    const Numbers<HalfElement> kv(keys);
    const auto all = static_cast<int64_t>(keys.size());
    GuardedOutput<HalfElement> y(n);
    GuardedOutput<HalfElement> dq(n);
    GuardedOutput<HalfElement> dk(all);
    GuardedOutput<HalfElement> dv(all);
    Output lse(size.batch * size.heads * size.sequence);
    run([&](Stream& s) {
      const auto in =
          apart<const HalfElement>(q.narrow.data(), kv.narrow.data(), kv.narrow.data(), size);
      attention_forward<HalfElement>(
          s, {.in = in, .y = y.data(), .lse = lse.data(), .size = size, .causal = true});
      attention_backward<HalfElement>(s, {.in = in,
                                          .y = y.data(),
                                          .lse = lse.data(),
                                          .dy = dy.narrow.data(),
                                          .grad = apart(dq.data(), dk.data(), dv.data(), size),
                                          .size = size,
                                          .causal = true});
    });
    return std::array{y.values(), dq.values(), dk.values(), dv.values()};
  };
  const auto found = computed(few, shared);
  const auto apart_found = computed(many, own);
  for (const size_t which : {0, 1, 2, 3}) {
    Doubles sums(found[which].size(), 0.0);
    Doubles sizes(found[which].size(), 0.0);
    for (int64_t i = 0; i < n; ++i) {
      const auto to = static_cast<size_t>(which < 2 ? i : in_shared(i));
      const double value = static_cast<double>(float{apart_found[which][static_cast<size_t>(i)]});
      sums[to] += value;
      sizes[to] += std::abs(value);
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(float{found[which][i]}), sums[i],
                  2.0 * kRelative<HalfElement> * (sizes[i] + kEpsilon))
          << "of y, dq, dk, dv the " << which << "th, at " << i;
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
