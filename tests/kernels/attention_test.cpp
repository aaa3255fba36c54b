#include "kernels/attention.h"

#include "kernel_test.h"

namespace hidup::kernels::testing {
namespace {

struct AttentionReference {
  Doubles y;
  Doubles lse;
};

// Computes attention by its definition, query by query.
AttentionReference reference(const Doubles& qkv, const AttentionSize& size, bool causal) {
  const auto [batch, sequence, heads, kv_heads, head] = size;
  const auto at = [&](int64_t b, int64_t s, int64_t which, int64_t h) {
    return qkv.data() + (((b * sequence + s) * 3 + which) * heads + h) * head;
  };
  AttentionReference result{Doubles(static_cast<size_t>(batch * sequence * heads * head), 0.0),
                            Doubles(static_cast<size_t>(batch * heads * sequence), 0.0)};
  for (int64_t query = 0; query < batch * heads * sequence; ++query) {
    const int64_t b = query / sequence / heads;
    const int64_t h = query / sequence % heads;
    const int64_t i = query % sequence;
    Doubles weights;
    double sum = 0.0;
    for (int64_t j = 0; j < (causal ? i + 1 : sequence); ++j) {
      double score = 0.0;
      for (int64_t d = 0; d < head; ++d) {
        score += at(b, i, 0, h)[d] * at(b, j, 1, h)[d];
      }
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(head))));
      sum += weights.back();
    }
    double* y = result.y.data() + ((b * sequence + i) * heads + h) * head;
    for (size_t j = 0; j < weights.size(); ++j) {
      for (int64_t d = 0; d < head; ++d) {
        y[d] += weights[j] / sum * at(b, static_cast<int64_t>(j), 2, h)[d];
      }
    }
    result.lse[static_cast<size_t>(query)] = std::log(sum);
  }
  return result;
}

struct AttentionOutputs {
  explicit AttentionOutputs(const AttentionSize& s)
      : y(s.batch * s.sequence * s.heads * s.head),
        lse(s.batch * s.heads * s.sequence),
        dqkv(3 * s.batch * s.sequence * s.heads * s.head) {}
  Output y;
  Output lse;
  Output dqkv;
};

void both_passes(const Floats& qkv, const Floats& dy, AttentionOutputs& out,
                 const AttentionSize& size, bool causal, int threads) {
  run(
      [&](Stream& stream) {
        attention_forward<float>(stream, {.in = packed(qkv.data(), size),
                                          .y = out.y.data(),
                                          .lse = out.lse.data(),
                                          .size = size,
                                          .causal = causal});
        attention_backward<float>(stream, {.in = packed(qkv.data(), size),
                                           .y = out.y.data(),
                                           .lse = out.lse.data(),
                                           .dy = dy.data(),
                                           .grad = packed(out.dqkv.data(), size),
                                           .size = size,
                                           .causal = causal});
      },
      threads);
}

TEST(Attention, AgreesWithTheDefinitionAndItsDifferences) {
  // Cases have less than a block of queries, exactly two blocks, three with a rest, and none.
  for (const AttentionSize size : {AttentionSize{2, 5, 3, 3, 4},
                                   {1, 1, 1, 1, 1},
                                   {1, 128, 2, 2, 8},
                                   {1, 131, 1, 1, 5},
                                   {2, 70, 2, 2, 33},
                                   {0, 5, 2, 2, 4},
                                   {2, 0, 2, 2, 4},
                                   {2, 5, 0, 0, 4}}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(::testing::Message() << size.batch << " " << size.sequence << " " << size.heads
                                        << " " << size.head << " causal " << causal);
      const int64_t n = size.batch * size.sequence * size.heads * size.head;
      const auto qkv = random_floats("qkv", 3 * n);
      const auto dy = random_floats("dy", n);
      AttentionOutputs out(size);
      both_passes(qkv, dy, out, size, causal, 1);
      const AttentionReference expected = reference(to_doubles(qkv), size, causal);
      expect_close(out.y, expected.y, 64.0 * kEpsilon, "y");
      expect_close(out.lse, expected.lse, 64.0 * kEpsilon, "lse");
      const Doubles weights = to_doubles(dy);
      expect_gradient(
          [&](const Doubles& at) { return dot(reference(at, size, causal).y, weights); },
          to_doubles(qkv), out.dqkv, 1e-5, "dqkv");
      for (size_t i = 0; i < out.dqkv.size(); ++i) {
        ASSERT_TRUE(std::isfinite(out.dqkv[i])) << "dqkv[" << i << "]";
      }
    }
  }
}

// Gives every head its own keys and values, as `reference` expects them.
Doubles repeated(const Doubles& q, const Doubles& k, const Doubles& v, const AttentionSize& size) {
  const auto [batch, sequence, heads, kv_heads, head] = size;
  Doubles qkv;
  for (int64_t position = 0; position < batch * sequence; ++position) {
    for (const Doubles* from : {&q, &k, &v}) {
      const int64_t own = from == &q ? heads : kv_heads;
      for (int64_t h = 0; h < heads; ++h) {
        const auto first =
            from->begin() + (position * own + (from == &q ? h : h / (heads / kv_heads))) * head;
        qkv.insert(qkv.end(), first, first + head);
      }
    }
  }
  return qkv;
}

TEST(Attention, HeadsShareKeysAndValues) {
  for (const AttentionSize size : {AttentionSize{2, 5, 6, 3, 4},
                                   {1, 70, 5, 1, 3},
                                   {2, 67, 4, 2, 9},
                                   {1, 3, 0, 2, 4}}) {  // a rank without heads of the groups
    const int64_t n = size.batch * size.sequence * size.heads * size.head;
    const int64_t shared = size.batch * size.sequence * size.kv_heads * size.head;
    const auto q = random_floats("q", n);
    const auto k = random_floats("k", shared);
    const auto v = random_floats("v", shared);
    const auto dy = random_floats("dy", n);
    Output y(n);
    Output lse(size.batch * size.heads * size.sequence);
    Output dq(n);
    Output dk(shared);
    Output dv(shared);
    run([&](Stream& stream) {
      const AttentionTensors<const float> in = apart(q.data(), k.data(), v.data(), size);
      attention_forward<float>(
          stream, {.in = in, .y = y.data(), .lse = lse.data(), .size = size, .causal = true});
      attention_backward<float>(stream, {.in = in,
                                         .y = y.data(),
                                         .lse = lse.data(),
                                         .dy = dy.data(),
                                         .grad = apart(dq.data(), dk.data(), dv.data(), size),
                                         .size = size,
                                         .causal = true});
    });
    const Doubles wide[] = {to_doubles(q), to_doubles(k), to_doubles(v)};
    const auto expected = [&](const Doubles& at_q, const Doubles& at_k, const Doubles& at_v) {
      return reference(repeated(at_q, at_k, at_v, size), size, true);
    };
    expect_close(y, expected(wide[0], wide[1], wide[2]).y, 64.0 * kEpsilon, "y");
    expect_close(lse, expected(wide[0], wide[1], wide[2]).lse, 64.0 * kEpsilon, "lse");
    const Doubles weights = to_doubles(dy);
    expect_gradient(
        [&](const Doubles& at) { return dot(expected(at, wide[1], wide[2]).y, weights); }, wide[0],
        dq, 1e-5, "dq");
    expect_gradient(
        [&](const Doubles& at) { return dot(expected(wide[0], at, wide[2]).y, weights); }, wide[1],
        dk, 1e-5, "dk");
    expect_gradient(
        [&](const Doubles& at) { return dot(expected(wide[0], wide[1], at).y, weights); }, wide[2],
        dv, 1e-5, "dv");
  }
}

TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  const AttentionSize size = {1, 3, 1, 1, 2};
  // Query 1 has scores of +-14142 and gives all its weight to key 1.
  const Floats qkv = {0.0F,   0.0F, -100.0F, 0.0F, 1.0F, 2.0F,  //
                      200.0F, 0.0F, 100.0F,  0.0F, 3.0F, 4.0F,  //
                      0.0F,   0.0F, -100.0F, 0.0F, 5.0F, 6.0F};
  const Floats dy(6, 1.0F);
  AttentionOutputs out(size);
  both_passes(qkv, dy, out, size, false, 1);
  EXPECT_FLOAT_EQ(out.y[2], 3.0F);
  EXPECT_FLOAT_EQ(out.y[3], 4.0F);
  EXPECT_NEAR(static_cast<double>(out.lse[1]), 20000.0 / std::sqrt(2.0), 2e-3);
  for (size_t i = 0; i < out.dqkv.size(); ++i) {
    EXPECT_TRUE(std::isfinite(out.dqkv[i]));
  }
}

TEST(Attention, HasTheSameBitsForAnyTeam) {
  const AttentionSize size = {2, 200, 2, 2, 17};
  const int64_t n = size.batch * size.sequence * size.heads * size.head;
  const auto qkv = random_floats("qkv", 3 * n);
  const auto dy = random_floats("dy", n);
  for (const bool causal : {false, true}) {
    expect_same_bits([&](int threads) {
      AttentionOutputs out(size);
      both_passes(qkv, dy, out, size, causal, threads);
      return all_of(out.y, out.lse, out.dqkv);
    });
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
