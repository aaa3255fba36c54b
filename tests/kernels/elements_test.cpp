// Every kernel on elements of 16 bits (attention: half_test.cpp), against the same kernel on the
// same numbers as floats, which other tests compare with double. The results differ by the rounding
// to 16 bits, and by that of float where sums have other orders; results stored in f32 differ by
// the latter alone.
#include <gtest/gtest.h>

#include "kernel_test.h"
#include "kernels/activations.h"
#include "kernels/add.h"
#include "kernels/add_parts.h"
#include "kernels/bias.h"
#include "kernels/class_token.h"
#include "kernels/convert.h"
#include "kernels/dispatch.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/expert_matmul.h"
#include "kernels/gate.h"
#include "kernels/matmul.h"
#include "kernels/positions.h"
#include "kernels/route.h"
#include "kernels/router_losses.h"
#include "losses.h"
#include "norms.h"
#include "routing_test.h"
#include "two_types.h"

namespace hidup::kernels::testing {
namespace {

// `slack`: the effect of the orders of sums, relative to 1 + |expected|.
template <typename Element>
void expect_rounded(const Results<Element>& found, double slack, const std::string& what) {
  for (size_t i = 0; i < found.wide.size(); ++i) {
    const auto expected = static_cast<double>(found.wide[i]);
    double bound = slack * (1.0 + std::abs(expected));
    if constexpr (!std::is_same_v<Element, float>) {
      bound += Rounding<Element>::kRelative * (std::abs(expected) + bound) +
               Rounding<Element>::kAbsolute;
    }
    const double error = std::abs(static_cast<double>(float{found.narrow[i]}) - expected);
    ASSERT_TRUE(error <= bound) << what << "[" << i << "] is " << float{found.narrow[i]}
                                << ", expected " << expected;
  }
}

template <typename Element>
class Elements : public ::testing::Test {
 protected:
  using Some = Numbers<Element>;
  using Stored = Results<Element>;
  using Summed = Results<float>;

  static Some some(const std::string& purpose, int64_t n, double scale = 1.0) {
    return Some(random_floats(purpose, n, scale));
  }
};

TYPED_TEST_SUITE(Elements, SixteenBits);

constexpr double kFew = 8.0 * kEpsilon;  // for a handful of operations

TYPED_TEST(Elements, OfElementwiseKernels) {
  const int64_t n = 1037;
  const auto a = this->some("a", n);
  const auto b = this->some("b", n);
  typename TestFixture::Stored sum(n), relu(n), relu_dx(n), gelu(n), gelu_dx(n), silu(n),
      silu_dx(n), dropped(n);
  typename TestFixture::Stored in_place(a);
  const OnDevice<StepState> state({.step = 3});
  const Region region = box({61, 17}, {0, 0}, {61, 17});
  run_both([&](Stream& s, auto of) {
    add_forward(s, of(a), of(b), of(sum), n);
    add_forward(s, of(in_place), of(b), of(in_place), n);
    relu_forward(s, of(a), of(relu), n);
    relu_backward(s, of(a), of(b), of(relu_dx), n);
    gelu_forward(s, of(a), of(gelu), n);
    gelu_backward(s, of(a), of(b), of(gelu_dx), n);
    silu_forward(s, of(a), of(silu), n);
    silu_backward(s, of(a), of(b), of(silu_dx), n);
    dropout(s, of(a), of(dropped), {.region = region, .p = 0.3F, .key = 99, .state = state.get()});
  });
  expect_rounded(sum, 0.0, "a + b");
  expect_rounded(in_place, 0.0, "a + b in place");
  expect_rounded(relu, 0.0, "relu");
  expect_rounded(relu_dx, 0.0, "relu's gradient");
  expect_rounded(gelu, kFew, "gelu");
  expect_rounded(gelu_dx, kFew, "gelu's gradient");
  expect_rounded(silu, kFew, "silu");
  expect_rounded(silu_dx, kFew, "silu's gradient");
  expect_rounded(dropped, 0.0, "dropout");
}

TYPED_TEST(Elements, OfBiasAndPositions) {
  const int64_t rows = 130;
  const int64_t n = 22;
  const auto x = this->some("x", rows * n);
  const auto b = this->some("b", n);
  typename TestFixture::Stored y(rows * n), positions(rows * n);
  typename TestFixture::Summed db(n), added(random_floats("db", n));
  const Region region = box({4, 70, 24}, {1, 3, 2}, {2, 65, 22});
  run_both([&](Stream& s, auto of) {
    bias_forward(s, of(x), of(b), of(y), rows, n);
    bias_backward(s, of(x), of(db), rows, n, false);
    bias_backward(s, of(x), of(added), rows, n, true);
    positions_forward(s, of(x), of(positions), region);
  });
  expect_rounded(y, 0.0, "x + b");
  expect_rounded(db, 0.0, "db");
  expect_rounded(added, 0.0, "db accumulated");
  expect_rounded(positions, 0.0, "positions");
}

TYPED_TEST(Elements, OfEmbedding) {
  for (const int64_t hidden : {19, 24, 264}) {
    const EmbeddingSize size{.tokens = 57, .vocab = 13, .hidden = hidden, .first = 2};
    const auto tokens = random_tokens("tokens", size.tokens, 17);
    const auto table = this->some("table", size.vocab * size.hidden);
    const auto dy = this->some("dy", size.tokens * size.hidden);
    typename TestFixture::Stored y(size.tokens * size.hidden);
    typename TestFixture::Summed dtable(size.vocab * size.hidden);
    run_both([&](Stream& s, auto of) {
      embedding_forward(s, tokens.data(), of(table), of(y), size, 3.3F);
      embedding_backward<Pointee<decltype(of(dy))>>(s, {.tokens = tokens.data(),
                                                        .dy = of(dy),
                                                        .dtable = of(dtable),
                                                        .size = size,
                                                        .scale = 3.3F,
                                                        .accumulate = false});
    });
    expect_rounded(y, 0.0, "y");
    expect_rounded(dtable, kFew, "dtable");
  }
}

TYPED_TEST(Elements, OfLayerNorm) {
  NormOfBoth<TypeParam> norm(70, 131);
  typename TestFixture::Stored in_place(norm.dy);
  run_both([&](Stream& s, auto of) {
    auto passes = norm.of(of);
    passes.forward(s);
    passes.backward(s);
    passes.dy = of(in_place);
    passes.dx = of(in_place);
    passes.backward(s);
  });
  const double slack = 64.0 * kEpsilon;
  expect_rounded(norm.y, slack, "y");
  expect_rounded(norm.mean, slack, "mean");
  expect_rounded(norm.rstd, slack, "rstd");
  expect_rounded(norm.dx, slack, "dx");
  expect_rounded(in_place, slack, "dx in place");
  expect_rounded(norm.dgamma, slack, "dgamma");
  expect_rounded(norm.dbeta, slack, "dbeta");
}

TYPED_TEST(Elements, OfMatmul) {
  for (const MatmulShape size : {MatmulShape{3, 5, 7}, {130, 67, 133}, {4, 3, 0}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const auto a = this->some("a", size.m * size.k);
        const auto b = this->some("b", size.k * size.n);
        const auto before = this->some("c", size.m * size.n);
        typename TestFixture::Stored c(size.m * size.n), added(before);
        typename TestFixture::Summed sums(size.m * size.n), added_sums(before.wide);
        run_both([&](Stream& s, auto of) {
          matmul(s, of(a), of(b), of(c), {size.m, size.n, size.k, transpose_a, transpose_b}, false);
          matmul(s, of(a), of(b), of(added), {size.m, size.n, size.k, transpose_a, transpose_b},
                 true);
          matmul(s, of(a), of(b), of(sums), {size.m, size.n, size.k, transpose_a, transpose_b},
                 false);
          matmul(s, of(a), of(b), of(added_sums),
                 {size.m, size.n, size.k, transpose_a, transpose_b}, true);
        });
        // Both orders of the sums are as far from the exact one as matmul_test.cpp says.
        const double slack = 2.0 * kEpsilon * (8.0 + 2.0 * static_cast<double>(size.k));
        expect_rounded(c, slack, "c");
        expect_rounded(added, slack, "c accumulated");
        expect_rounded(sums, slack, "c in f32");
        expect_rounded(added_sums, slack, "c in f32 accumulated");
      }
    }
  }
}

TYPED_TEST(Elements, OfCrossEntropy) {
  const int64_t rows = 33;
  const int64_t vocab = 259;
  const auto targets = random_tokens("targets", rows, vocab);
  Floats drawn = random_floats("logits", rows * vocab, 3.0);
  for (int64_t row = 0; row < rows; row += 2) {  // nearly certain: probabilities near 1 cancel
    drawn[static_cast<size_t>(row * vocab + targets[static_cast<size_t>(row)])] = 20.0F;
  }
  const typename TestFixture::Some logits(drawn);
  typename TestFixture::Stored dlogits(rows * vocab), in_place(logits);
  typename TestFixture::Summed lse(rows), loss(2), stats(3 * rows);
  const OnDevice<StepState> state({.loss_scale = 64.0F});
  run_both([&](Stream& s, auto of) {
    const CrossEntropy<Pointee<decltype(of(logits))>> loss_of{.rows = rows,
                                                              .columns = vocab,
                                                              .logits = of(logits),
                                                              .targets = targets.data(),
                                                              .scale = 0.1F,
                                                              .lse = of(lse),
                                                              .loss = of(loss),
                                                              .dlogits = of(dlogits),
                                                              .statistics = of(stats),
                                                              .state = state.get()};
    loss_of.forward(s);
    loss_of.stats(s);
    loss_of.backward(s);
    loss_of.backward_in_place(s, of(in_place));
  });
  const double slack = 16.0 * kEpsilon;
  expect_rounded(lse, slack, "lse");
  expect_rounded(loss, slack, "loss");
  expect_rounded(stats, slack, "stats");
  expect_rounded(dlogits, 6.4 * slack, "dlogits");
  expect_rounded(in_place, 6.4 * slack, "dlogits in place");
}

TYPED_TEST(Elements, OfClassTokens) {
  const SequenceSize size{.batch = 5, .sequence = 7, .n = 9};
  const int64_t all = size.batch * size.sequence * size.n;
  const auto x = this->some("x", all);
  const auto token = this->some("token", size.n);
  const auto dy = this->some("dy", all + size.batch * size.n);
  const auto row = this->some("row", size.batch * size.n);
  typename TestFixture::Stored y(all + size.batch * size.n), dx(all), first(size.batch * size.n),
      dfirst(all);
  typename TestFixture::Summed dtoken(size.n);
  run_both([&](Stream& s, auto of) {
    prepend_forward(s, of(x), of(token), of(y), size);
    prepend_backward<Pointee<decltype(of(dy))>>(
        s, {.dy = of(dy), .dx = of(dx), .dtoken = of(dtoken), .size = size, .accumulate = false});
    first_forward(s, of(x), of(first), size, true);
    first_backward(s, of(row), of(dfirst), size, true);
  });
  expect_rounded(y, 0.0, "y");
  expect_rounded(dx, 0.0, "dx");
  expect_rounded(dtoken, kFew, "dtoken");
  expect_rounded(first, 0.0, "first");
  expect_rounded(dfirst, 0.0, "dfirst");
}

TYPED_TEST(Elements, OfRoutingAndGates) {
  for (const int64_t choices : {1, 2, 3}) {
    const RouteSize size{
        .batch = 2, .sequence = 37, .experts = 5, .choices = choices, .capacity = 9};
    const int64_t tokens = size.batch * size.sequence;
    const auto logits = this->some("logits", tokens * size.experts);
    const auto dweights = random_floats("dweights", tokens * choices);
    typename TestFixture::Stored dlogits(tokens * size.experts);
    typename TestFixture::Summed weights(tokens * choices);
    IntOutput routing(tokens * choices);
    IntOutput expected(tokens * choices);
    const GateSize gate{tokens, size.experts, choices, size.capacity};
    run([&](Stream& s) {
      route_forward(s, logits.narrow.data(), routing.data(), size);
      route_forward(s, logits.wide.data(), expected.data(), size);
    });
    EXPECT_EQ(routing.values(), expected.values());
    run_both([&](Stream& s, auto of) {
      gate_forward(s, of(logits), routing.data(), of(weights), gate);
      gate_backward(s, of(logits), routing.data(), dweights.data(), of(dlogits), gate);
    });
    expect_rounded(weights, kFew, "weights");
    expect_rounded(dlogits, kFew, "dlogits");
  }
}

TYPED_TEST(Elements, OfRouterLosses) {
  const RouteSize route{.batch = 2, .sequence = 37, .experts = 5, .choices = 3, .capacity = 9};
  const int64_t tokens = route.batch * route.sequence;
  const auto logits = this->some("logits", tokens * route.experts);
  const auto routing = random_routing(route);
  const auto all = random_floats("sums", 3 * route.experts);
  const OnDevice<StepState> state({.step = 1, .loss_scale = 256.0F});
  typename TestFixture::Stored dlogits(tokens * route.experts);
  typename TestFixture::Summed sums(3 * route.experts);
  run_both([&](Stream& s, auto of) {
    using Element = Pointee<decltype(of(logits))>;
    router_sums<Element>(s, {.logits = of(logits),
                             .routing = routing.data(),
                             .sums = of(sums),
                             .tokens = tokens,
                             .experts = route.experts,
                             .choices = route.choices,
                             .counted = 2,
                             .capacity = route.capacity});
    router_losses_backward<Element>(s, {.logits = of(logits),
                                        .sums = all.data(),
                                        .dlogits = of(dlogits),
                                        .tokens = tokens,
                                        .experts = route.experts,
                                        .all_tokens = 4 * tokens,
                                        .counted = 2,
                                        .balance = 1.0F,
                                        .z = 1.0F,
                                        .accumulate = false,
                                        .state = state.get()});
  });
  expect_rounded(sums, kFew, "sums");
  expect_rounded(dlogits, kFew, "dlogits");
}

TYPED_TEST(Elements, OfDispatchAndCombine) {
  for (const int64_t width : {11, 24, 264}) {
    const RouteSize route{.batch = 2, .sequence = 37, .experts = 5, .choices = 2, .capacity = 9};
    const DispatchSize size{.batch = 2,
                            .sequence = 37,
                            .choices = 2,
                            .experts = 5,
                            .first_expert = 0,
                            .capacity = 9,
                            .width = width};
    const int64_t tokens = size.batch * size.sequence;
    const int64_t slots = size.batch * size.experts * size.capacity;
    const auto routing = random_routing(route);
    const auto weights = random_floats("weights", tokens * size.choices);
    const auto x = this->some("x", tokens * size.width);
    const auto outputs = this->some("buffer", slots * size.width);
    typename TestFixture::Stored buffer(slots * size.width), dx(tokens * size.width),
        y(tokens * size.width), dbuffer(slots * size.width);
    typename TestFixture::Summed dweights(tokens * size.choices);
    run_both([&](Stream& s, auto of) {
      dispatch_forward(s, of(x), routing.data(), of(buffer), size);
      dispatch_backward(s, of(outputs), routing.data(), of(dx), size);
      combine_forward(s, of(outputs), routing.data(), weights.data(), of(y), size);
      combine_backward<Pointee<decltype(of(outputs))>>(s, {.buffer = of(outputs),
                                                           .routing = routing.data(),
                                                           .weights = weights.data(),
                                                           .dy = of(x),
                                                           .dbuffer = of(dbuffer),
                                                           .dweights = of(dweights),
                                                           .size = size});
    });
    expect_rounded(buffer, 0.0, "buffer");
    expect_rounded(dx, kFew, "dx");
    expect_rounded(y, kFew, "y");
    expect_rounded(dbuffer, 0.0, "dbuffer");
    expect_rounded(dweights, kFew + 2.0 * kEpsilon * static_cast<double>(width), "dweights");
  }
}

TYPED_TEST(Elements, OfExperts) {
  const ExpertSize size{.experts = 3, .batch = 2, .capacity = 20, .k = 37, .n = 21};
  const Ints counts = {20, 0, 7, 3, 5, 20};
  const int64_t rows = size.batch * size.experts * size.capacity;
  auto x = this->some("x", rows * size.k);
  auto dy = this->some("dy", rows * size.n);
  for (int64_t row = 0; row < rows; ++row) {  // unused rows are zero
    if (row % size.capacity >= counts[static_cast<size_t>(row / size.capacity)]) {
      for (auto& [numbers, width] : {std::pair{&x, size.k}, {&dy, size.n}}) {
        std::fill_n(numbers->narrow.begin() + row * width, width, TypeParam(0.0F));
        std::fill_n(numbers->wide.begin() + row * width, width, 0.0F);
      }
    }
  }
  const auto w = this->some("w", size.experts * size.k * size.n);
  const auto bias = this->some("bias", size.experts * size.n);
  typename TestFixture::Stored y(rows * size.n), dx(rows * size.k), biased(rows * size.n);
  typename TestFixture::Summed dw(size.experts * size.k * size.n), dbias(size.experts * size.n);
  run_both([&](Stream& s, auto of) {
    expert_matmul(s, of(x), of(w), counts.data(), of(y), size);
    expert_matmul_backward_input(s, of(dy), of(w), counts.data(), of(dx), size);
    expert_matmul_backward_weight<Pointee<decltype(of(x))>>(s, {.x = of(x),
                                                                .dy = of(dy),
                                                                .counts = counts.data(),
                                                                .dw = of(dw),
                                                                .size = size,
                                                                .accumulate = false});
    expert_bias(s, of(dy), of(bias), counts.data(), of(biased), size);
    expert_bias_backward(s, of(dy), counts.data(), of(dbias), size, false);
  });
  const double slack = 2.0 * kEpsilon * (8.0 + 2.0 * static_cast<double>(size.capacity * 2));
  expect_rounded(y, slack, "y");
  expect_rounded(dx, slack, "dx");
  expect_rounded(dw, slack, "dw");
  expect_rounded(biased, 0.0, "biased");
  expect_rounded(dbias, slack, "dbias");
}

// Parts in a row may begin anywhere, and so may the sum.
TYPED_TEST(Elements, OfPartsAreAdded) {
  for (const auto& [count, n, first] : {std::tuple<int64_t, int64_t, size_t>{0, 64, 0},
                                        {1, 1037, 0},
                                        {3, 1037, 1},
                                        {5, 2048, 0},
                                        {2, 4096, 3},
                                        {7, 1, 0},
                                        {4, 0, 0}}) {
    const auto x = random_floats("parts", count * n);
    const auto own = random_floats("own", n + 3);
    DeviceArray<TypeParam> parts(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      parts[i] = TypeParam(x[i]);
    }
    Output sum(own);
    run([&, count = count, n = n, first = first](Stream& s) {
      add_parts(s, parts.data(), count, sum.data() + first, n);
    });
    for (size_t i = 0; i < own.size(); ++i) {
      float expected = own[i];
      const bool inside = i >= first && i < first + static_cast<size_t>(n);
      for (size_t part = 0; inside && part < static_cast<size_t>(count); ++part) {
        expected += float{parts[part * static_cast<size_t>(n) + i - first]};
      }
      ASSERT_EQ(sum[i], expected) << count << " parts of " << n << ", element " << i;
    }
  }
}

TYPED_TEST(Elements, AreConverted) {
  const auto x = random_floats("x", 1037);
  GuardedOutput<TypeParam> narrow(1037);
  Output back(1037);
  run([&](Stream& s) {
    convert(s, x.data(), narrow.data(), 1037);
    convert(s, narrow.data(), back.data(), 1037);
  });
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(narrow[i].bits, TypeParam(x[i]).bits);
    ASSERT_EQ(back[i], float{TypeParam(x[i])});
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
