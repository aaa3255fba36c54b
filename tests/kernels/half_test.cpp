// Kernels of 16-bit elements beside those of floats, from the same values: what the former store is
// what the latter store, rounded once.
#include "core/half.h"

#include <type_traits>

#include "kernel_test.h"
#include "kernels/add.h"
#include "kernels/attention.h"
#include "kernels/bias.h"
#include "kernels/convert.h"
#include "kernels/cross_entropy.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/gelu.h"
#include "kernels/layer_norm.h"
#include "kernels/matmul.h"
#include "kernels/positions.h"
#include "kernels/relu.h"
#include "kernels/route.h"

namespace hidup::kernels::testing {
namespace {

// The same values twice: as elements, and as floats.
template <typename Element>
struct Values {
  using Elements = std::vector<Element, DeviceAllocator<Element>>;

  // Results, not yet written.
  explicit Values(int64_t n) : Values(Floats(static_cast<size_t>(n), kNan)) {}
  explicit Values(const Floats& floats) : wide(floats.size()) {
    for (size_t i = 0; i < floats.size(); ++i) {
      elements.push_back(Element(floats[i]));
      wide[i] = elements[i];
    }
  }
  Values(const std::string& purpose, int64_t n, double scale = 1.0)
      : Values(random_floats(purpose, n, scale)) {}

  Elements elements;
  Floats wide;
};

struct TakeElements {
  template <typename Element>
  Element* operator()(Values<Element>& values) const {
    return values.elements.data();
  }
};
struct TakeFloats {
  template <typename Element>
  float* operator()(Values<Element>& values) const {
    return values.wide.data();
  }
};

// Runs work(stream, of) with either: of(values) is a pointer.
template <typename Work>
void run_both(Work work) {
  run([&](Stream& s) {
    work(s, TakeElements{});
    work(s, TakeFloats{});
  });
}

// The relative error of rounding to an element.
template <typename Element>
constexpr double kRounding = std::is_same_v<Element, BFloat16>  ? 0x1p-8
                             : std::is_same_v<Element, Float16> ? 0x1p-11
                                                                : 0.0;

// |element - float| <= roundings to elements of (size + |float|), and `of_floats` roundings to
// floats of (1 + |float|): compilers may contract and reorder the two kernels' operations
// differently.
template <typename Element>
void expect_close(const Values<Element>& values, double roundings, double size, double of_floats,
                  const std::string& what) {
  for (size_t i = 0; i < values.wide.size(); ++i) {
    const auto wide = static_cast<double>(values.wide[i]);
    const double error = std::abs(static_cast<double>(float{values.elements[i]}) - wide);
    ASSERT_TRUE(error <= roundings * kRounding<Element> * (size + std::abs(wide)) +
                             of_floats * kEpsilon * (1.0 + std::abs(wide)))
        << what << "[" << i << "] is " << float{values.elements[i]} << ", expected " << wide;
  }
}

template <typename Element>
void expect_rounded(const Values<Element>& values, const std::string& what,
                    double of_floats = 8.0) {
  expect_close(values, 1.0, 0.0, of_floats, what);
}

template <typename Element>
class Half : public ::testing::Test {};
using HalfTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Half, HalfTypes, );

TYPED_TEST(Half, ElementByElement) {
  for (const int64_t n : {1, 7, 8, 1000, 5003}) {  // without vectors, with a rest
    Values<TypeParam> a("a", n);
    Values<TypeParam> b("b", n, 3.0);
    for (int kernel = 0; kernel < 6; ++kernel) {
      Values<TypeParam> y(n);
      run_both([&](Stream& s, auto of) {
        switch (kernel) {
          case 0:
            return add_forward(s, of(a), of(b), of(y), n);
          case 1:
            return relu_forward(s, of(a), of(y), n);
          case 2:
            return relu_backward(s, of(a), of(b), of(y), n);
          case 3:
            return gelu_forward(s, of(a), of(y), n);
          case 4:
            return gelu_backward(s, of(a), of(b), of(y), n);
          default:
            return add_forward(s, of(a) + 1, of(b) + 1, of(y) + 1, n - 1);  // not aligned
        }
      });
      if (kernel == 5) {
        y.wide[0] = 0.0F;
        y.elements[0] = TypeParam(0.0F);
      }
      expect_rounded(y, "kernel " + std::to_string(kernel));
    }
  }
}

TYPED_TEST(Half, Convert) {
  for (const int64_t n : {3, 1001}) {
    const Values<TypeParam> x("x", n, 100.0);
    const Floats floats = random_floats("floats", n, 0.01);
    Values<TypeParam> rounded(n);
    Floats widened(x.wide.size(), kNan);
    run([&](Stream& s) {
      convert(s, x.elements.data(), widened.data(), n);
      convert(s, floats.data(), rounded.elements.data(), n);
    });
    rounded.wide = floats;
    expect_rounded(rounded, "rounded");
    EXPECT_EQ(widened, x.wide);
  }
}

TYPED_TEST(Half, BiasAndLayerNorm) {
  for (const int64_t n : {5, 64, 1500}) {
    const int64_t rows = 77;
    Values<TypeParam> x("x", rows * n, 2.0);
    Values<TypeParam> gamma("gamma", n);
    Values<TypeParam> beta("beta", n);
    Values<TypeParam> dy("dy", rows * n);
    Values<TypeParam> biased(rows * n);
    Values<TypeParam> y(rows * n);
    Values<TypeParam> dx(rows * n);
    Values<float> mean(rows);
    Values<float> rstd(rows);
    Values<float> db(n);
    Values<float> dgamma(n);
    Values<float> dbeta(n);
    run_both([&](Stream& s, auto of) {
      bias_forward(s, of(x), of(beta), of(biased), rows, n);
      bias_backward(s, of(dy), of(db), rows, n, false);
      layer_norm_forward(s, of(x), of(gamma), of(beta), of(y), of(mean), of(rstd), rows, n, 1e-5F);
      layer_norm_backward(s, of(x), of(gamma), of(mean), of(rstd), of(dy), of(dx), of(dgamma),
                          of(dbeta), rows, n, false);
    });
    expect_rounded(biased, "biased");
    expect_rounded(db, "db", 2.0 * rows);
    expect_rounded(mean, "mean");
    expect_rounded(rstd, "rstd");
    expect_rounded(y, "y");
    expect_rounded(dgamma, "dgamma", 4.0 * rows);
    expect_rounded(dbeta, "dbeta", 2.0 * rows);
    expect_rounded(dx, "dx");
  }
}

TYPED_TEST(Half, CrossEntropy) {
  const int64_t rows = 19;
  const int64_t vocab = 700;
  Values<TypeParam> logits("logits", rows * vocab, 4.0);
  Values<TypeParam> dlogits(rows * vocab);
  Values<float> lse(rows);
  Values<float> loss(1);
  Values<float> stats(2 * rows);
  const Ints targets = random_tokens("targets", rows, vocab);
  const OnDevice<StepState> state({.loss_scale = 1024.0F});
  run_both([&](Stream& s, auto of) {
    const float scale = 1.0F / static_cast<float>(rows);
    cross_entropy_forward(s, of(logits), targets.data(), of(lse), of(loss), rows, vocab, scale,
                          false);
    cross_entropy_stats(s, of(logits), targets.data(), of(stats), rows, vocab, 0);
    cross_entropy_backward(s, of(logits), targets.data(), of(lse), of(dlogits), rows, vocab, 0,
                           scale, state.get());
  });
  expect_rounded(lse, "lse");
  expect_rounded(loss, "loss");
  expect_rounded(stats, "stats");
  expect_rounded(dlogits, "dlogits");
}

TYPED_TEST(Half, EmbeddingPositionsAndDropout) {
  const EmbeddingSize size = {.tokens = 60, .vocab = 40, .hidden = 19, .first = 5};
  const int64_t n = size.tokens * size.hidden;
  Values<TypeParam> table("table", size.vocab * size.hidden);
  Values<TypeParam> dy("dy", n);
  Values<TypeParam> y(n);
  Values<TypeParam> moved(n);
  Values<TypeParam> dropped(n);
  Values<float> dtable(size.vocab * size.hidden);
  const Ints tokens = random_tokens("tokens", size.tokens, 50);
  const Region region = box({4, 15, 19}, {0, 0, 0}, {4, 15, 19});
  const OnDevice<StepState> state({.step = 3});
  run_both([&](Stream& s, auto of) {
    embedding_forward(s, tokens.data(), of(table), of(y), size, 3.0F);
    embedding_backward(s, tokens.data(), of(dy), of(dtable), size, 3.0F, false);
    positions_forward(s, of(dy), of(moved), region);
    dropout(s, of(dy), of(dropped), region, 0.3F, 11, state.get());
  });
  expect_rounded(y, "y");
  expect_rounded(dtable, "dtable");
  expect_rounded(moved, "moved");
  expect_rounded(dropped, "dropped");
}

TYPED_TEST(Half, RoutingOfTokens) {
  for (const int64_t choices : {1, 2}) {
    const RouteSize route = {
        .batch = 2, .sequence = 9, .experts = 5, .choices = choices, .capacity = 4};
    const DispatchSize size = {.batch = 2,
                               .sequence = 9,
                               .choices = choices,
                               .experts = 5,
                               .first_expert = 0,
                               .capacity = 4,
                               .width = 11};
    const GateSize gate = {.tokens = 18, .experts = 5, .choices = choices, .capacity = 4};
    const int64_t slots = 2 * 5 * 4 * 11;
    Values<TypeParam> logits("logits", 18 * 5);
    Values<TypeParam> x("x", 18 * 11);
    Values<TypeParam> buffer(slots);
    Values<TypeParam> y(18 * 11);
    Values<TypeParam> dx(18 * 11);
    Values<TypeParam> dbuffer(slots);
    Values<TypeParam> dlogits(18 * 5);
    Values<float> weights(18 * choices);
    Values<float> dweights(18 * choices);
    Ints of_elements(static_cast<size_t>(18 * choices), 77);
    Ints of_floats = of_elements;
    run([&](Stream& s) {
      route_forward(s, logits.elements.data(), of_elements.data(), route);
      route_forward(s, logits.wide.data(), of_floats.data(), route);
    });
    ASSERT_EQ(of_elements, of_floats);
    const int32_t* routing = of_floats.data();
    run_both([&](Stream& s, auto of) {
      gate_forward(s, of(logits), routing, of(weights), gate);
      gate_backward(s, of(logits), routing, of(weights), of(dlogits), gate);
      dispatch_forward(s, of(x), routing, of(buffer), size);
      combine_forward(s, of(buffer), routing, of(weights), of(y), size);
      dispatch_backward(s, of(buffer), routing, of(dx), size);
      combine_backward(s, of(buffer), routing, of(weights), of(x), of(dbuffer), of(dweights), size);
    });
    expect_rounded(weights, "weights");
    expect_rounded(dlogits, "dlogits");
    expect_rounded(buffer, "buffer");
    expect_rounded(y, "y");
    expect_rounded(dx, "dx");
    expect_rounded(dbuffer, "dbuffer");
    expect_rounded(dweights, "dweights");
  }
}

// Each of two sums in an order of its own: as in the tests of matmul() and expert_matmul().
double of_products(int64_t terms) {
  return 2.0 * (8.0 + 2.0 * static_cast<double>(terms));
}

TYPED_TEST(Half, Matmul) {
  for (const MatmulSize size : {MatmulSize{3, 5, 7}, {130, 67, 33}, {64, 48, 200}, {4, 3, 0}}) {
    for (const int transposed : {0, 1, 2, 3}) {
      Values<TypeParam> a("a", size.m * size.k);
      Values<TypeParam> b("b", size.k * size.n);
      Values<TypeParam> c("c", size.m * size.n);
      Values<float> weights("weights", size.m * size.n);
      const bool accumulates = transposed % 2 == 0;
      run_both([&](Stream& s, auto of) {
        matmul(s, of(a), of(b), of(c), size, transposed > 1, transposed % 2 == 1, accumulates);
        matmul(s, of(a), of(b), of(weights), size, transposed > 1, transposed % 2 == 1,
               accumulates);
      });
      const double sum = of_products(size.k);
      expect_rounded(c, "c", sum);
      expect_rounded(weights, "f32 c", sum);
    }
  }
}

TYPED_TEST(Half, Experts) {
  for (const ExpertSize size : {ExpertSize{3, 4, 37, 33, 13}, {5, 2, 8, 16, 24}, {2, 1, 9, 5, 7}}) {
    const int64_t rows = size.batch * size.experts * size.capacity;
    Ints counts(static_cast<size_t>(size.batch * size.experts), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      counts[i] = static_cast<int32_t>((3 * static_cast<int64_t>(i)) % (size.capacity + 1));
    }
    const auto with_zeros = [&](const std::string& purpose, int64_t width) {
      Floats all = random_floats(purpose, rows * width);
      for (int64_t i = 0; i < rows * width; ++i) {
        if (i / width % size.capacity >= counts[static_cast<size_t>(i / width / size.capacity)]) {
          all[static_cast<size_t>(i)] = 0.0F;
        }
      }
      return all;
    };
    Values<TypeParam> x(with_zeros("x", size.k));
    Values<TypeParam> dy(with_zeros("dy", size.n));
    Values<TypeParam> w("w", size.experts * size.k * size.n);
    Values<TypeParam> bias("bias", size.experts * size.n);
    Values<TypeParam> y(rows * size.n);
    Values<TypeParam> biased(rows * size.n);
    Values<TypeParam> dx(rows * size.k);
    Values<float> dw(size.experts * size.k * size.n);
    Values<float> dbias(size.experts * size.n);
    run_both([&](Stream& s, auto of) {
      expert_matmul(s, of(x), of(w), counts.data(), of(y), size);
      expert_matmul_backward_input(s, of(dy), of(w), counts.data(), of(dx), size);
      expert_matmul_backward_weight(s, of(x), of(dy), counts.data(), of(dw), size, false);
      expert_matmul_backward_weight(s, of(x), of(dy), counts.data(), of(dw), size, true);
      expert_bias(s, of(dy), of(bias), counts.data(), of(biased), size);
      expert_bias_backward(s, of(dy), counts.data(), of(dbias), size, false);
    });
    expect_rounded(y, "y", of_products(size.k));
    expect_rounded(dx, "dx", of_products(size.n));
    expect_rounded(dw, "dw", of_products(2 * size.batch * size.capacity));
    expect_rounded(biased, "biased");
    expect_rounded(dbias, "dbias", static_cast<double>(size.batch * size.capacity));
  }
}

// Probabilities, and gradients of scores, may be rounded to elements before they are multiplied:
// with weights that add up to 1, values of at most 1.74, and sums of dS of at most `size`.
TYPED_TEST(Half, Attention) {
  for (const AttentionSize size : {AttentionSize{2, 5, 3, 4},
                                   {1, 1, 1, 1},
                                   {1, 64, 1, 64},
                                   {1, 131, 1, 5},    // rows that are not aligned
                                   {2, 70, 2, 33},    //
                                   {1, 150, 1, 24},   //
                                   {1, 129, 1, 128},  // the longer tiles
                                   {1, 67, 2, 72},    //
                                   {1, 65, 1, 136},   // too long for tiles
                                   {2, 0, 2, 4},
                                   {2, 5, 0, 4}}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << size.batch << " " << size.sequence << " " << size.heads
                                        << " " << size.head << " causal " << causal);
      const int64_t n = size.batch * size.sequence * size.heads * size.head;
      Values<TypeParam> qkv("qkv", 3 * n);
      Values<TypeParam> y(n);
      Values<TypeParam> dy("dy", n);
      Values<TypeParam> dqkv(3 * n);
      Values<float> lse(size.batch * size.heads * size.sequence);
      run_both(
          [&](Stream& s, auto of) { attention_forward(s, of(qkv), of(y), of(lse), size, causal); });
      expect_rounded(lse, "lse", of_products(size.head));
      expect_close(y, 1.0, 1.8, 64.0, "y");
      y.wide.assign(y.elements.begin(), y.elements.end());
      run_both([&](Stream& s, auto of) {
        attention_backward(s, of(qkv), of(y), of(lse), of(dy), of(dqkv), size, causal);
      });
      expect_close(dqkv, 1.0, 2.0 * std::sqrt(static_cast<double>(size.head)), 64.0, "dqkv");
    }
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
