#include "kernels/route.h"

#include "kernels/router_bias.h"

#include "routing_test.h"

namespace hidup::kernels::testing {
namespace {

Ints routed(const Floats& logits, const RouteSize& size, int threads = 1) {
  IntOutput routing(size.batch * size.sequence * size.choices);
  run([&](Stream& s) { route_forward(s, logits.data(), routing.data(), size); }, threads);
  return routing.values();
}

Ints routed_as_chosen(const Ints& chosen, const RouteSize& size) {
  IntOutput routing(size.batch * size.sequence * size.choices);
  run([&](Stream& s) { route_chosen(s, chosen.data(), routing.data(), size); });
  return routing.values();
}

// Returns logits of a few values only, so that many are equal.
Floats coarse_logits(const RouteSize& size) {
  Floats logits;
  for (const int32_t value :
       random_tokens("logits", size.batch * size.sequence * size.experts, 5)) {
    logits.push_back(static_cast<float>(value) - 2.0F);
  }
  return logits;
}

// Sorts: the largest logit comes first, the lower expert among equal ones.
Ints best_experts(const Floats& logits, const RouteSize& size) {
  Ints chosen;
  for (int64_t t = 0; t < size.batch * size.sequence; ++t) {
    const auto x = logits.begin() + t * size.experts;
    Ints order(static_cast<size_t>(size.experts));
    for (size_t e = 0; e < order.size(); ++e) {
      order[e] = static_cast<int32_t>(e);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
    chosen.insert(chosen.end(), order.begin(), order.begin() + size.choices);
  }
  return chosen;
}

// Returns the scores that choices with biases compare: the softmax or the sigmoids, plus biases.
Floats biased_scores(const Floats& logits, const Floats& bias, const RouteSize& size,
                     bool sigmoid) {
  Floats scores;
  for (size_t i = 0; i < logits.size(); ++i) {
    const size_t e = i % static_cast<size_t>(size.experts);
    double sum = 0.0;
    for (size_t other = i - e; other < i - e + static_cast<size_t>(size.experts); ++other) {
      sum += std::exp(static_cast<double>(logits[other]));
    }
    const double x = static_cast<double>(logits[i]);
    const double score = sigmoid ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / sum;
    scores.push_back(static_cast<float>(score) + bias[e]);
  }
  return scores;
}

TEST(Route, BiasesCountForTheChoice) {
  for (const RouteSize size : {RouteSize{1, 1, 1, 1, 1},
                               {3, 17, 5, 2, 4},
                               {2, 33, 67, 8, 12},
                               {2, 9, 4, 4, 3},
                               {2, 9, 4, 2, 0},
                               {0, 5, 3, 1, 2}}) {
    const auto logits = random_floats("logits", size.batch * size.sequence * size.experts, 1.0);
    const auto bias = random_floats("bias", size.experts, 0.3);
    for (const bool sigmoid : {true, false}) {
      IntOutput routing(size.batch * size.sequence * size.choices);
      run([&](Stream& s) {
        route_biased(s, logits.data(), bias.data(), routing.data(), size, sigmoid);
      });
      const auto scores = biased_scores(logits, bias, size, sigmoid);
      EXPECT_EQ(routing.values(), routing_of(best_experts(scores, size), size)) << sigmoid;
    }
  }
  IntOutput nothing(2);
  run([&](Stream& s) {
    route_biased<float>(s, nullptr, nullptr, nothing.data(), {1, 2, 0, 1, 3}, true);
  });
  EXPECT_EQ(nothing.values(), (Ints{-1, -1}));
}

TEST(Route, BiasesMoveTowardsTheMeanLoad) {
  const Floats load = {3.0F, 0.0F, 6.0F, 3.0F, 2.0F};  // the mean is 2.8
  const Floats before = {0.5F, 0.25F, 0.0F, -1.0F, 2.0F};
  const Floats steps = {-0.125F, 0.125F, -0.125F, -0.125F, 0.125F};
  const auto moved = [&](const Floats& loads, int64_t first, int64_t n, float scale) {
    Output bias(Floats(before.begin() + first, before.begin() + first + n));
    const Floats scales = {scale};
    run([&](Stream& s) {
      move_router_bias(s, {.bias = bias.data(),
                           .load = loads.data(),
                           .first = first,
                           .n = n,
                           .experts = static_cast<int64_t>(loads.size()),
                           .speed = 0.125F,
                           .gradient_scale = scales.data()});
    });
    return bias.values();
  };
  for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 5}, {2, 3}, {4, 0}, {1, 1}}) {
    Floats expected;
    for (int64_t e = first; e < first + n; ++e) {
      expected.push_back(before[static_cast<size_t>(e)] + steps[static_cast<size_t>(e)]);
    }
    EXPECT_EQ(moved(load, first, n, 0.5F), expected);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {kNan, infinity}) {  // a step that is not finite
    EXPECT_EQ(moved(load, 0, 5, scale), before);
  }
  EXPECT_EQ(moved(Floats(5, 7.0F), 0, 5, 1.0F), before) << "equal loads";
}

TEST(Route, FollowsTheDefinition) {
  for (const RouteSize size : {RouteSize{1, 1, 1, 1, 1},
                               {1, 1, 2, 2, 1},
                               {2, 7, 3, 1, 2},
                               {3, 17, 5, 2, 4},
                               {2, 65, 8, 2, 3},  // most choices are dropped
                               {2, 33, 67, 2, 40},
                               {3, 17, 5, 3, 4},
                               {2, 33, 67, 8, 12},
                               {2, 9, 4, 4, 3},  // a token chooses all experts
                               {40, 3, 5, 2, 2},
                               {1, 4500, 3, 1, 2000},
                               {2, 9, 4, 2, 0},  // all choices are dropped
                               {0, 5, 3, 1, 2},
                               {2, 0, 3, 2, 1}}) {
    SCOPED_TRACE(::testing::Message() << size.batch << " " << size.sequence << " " << size.experts);
    const auto logits = coarse_logits(size);
    EXPECT_EQ(routed(logits, size), routing_of(best_experts(logits, size), size));
  }
}

TEST(Route, FirstChoicesTakeSlotsBeforeSecondOnesAndLowerExpertsWinTies) {
  // Choices: 1 then 0; 0 then 1 (equal); 1 then 2 (equal seconds); 2 then 1.
  const Floats logits = {1.0F,  2.0F, 0.0F,   //
                         3.0F,  3.0F, 3.0F,   //
                         -1.0F, 5.0F, -1.0F,  //
                         0.0F,  1.0F, 9.0F};
  const Ints expected = {2, 1,   // expert 1 slot 0, expert 0 slot 1
                         0, -2,  // expert 0 slot 0, expert 1 is full
                         3, -1,  // expert 1 slot 1, expert 0 is full
                         4, -2};
  EXPECT_EQ(routed(logits, {1, 4, 3, 2, 2}), expected);
}

TEST(Route, WithFewerExpertsThanChoices) {
  EXPECT_EQ(routed({1.0F, 2.0F}, {1, 2, 1, 2, 3}), (Ints{0, 2, 1, -1}));
  EXPECT_EQ(routed({1.0F, 2.0F}, {1, 1, 2, 3, 3}), (Ints{3, 0, 4}));
  EXPECT_EQ(routed({}, {1, 2, 0, 1, 3}), (Ints{-1, -1}));
  EXPECT_EQ(routed_as_chosen({0, 0}, {1, 2, 0, 1, 3}), (Ints{-1, -1}));
}

TEST(Route, SecondChoicesTakeSlotsBeforeThirdOnes) {
  // Choices: 0, 1, 2; 2, 0, 1; 1, 2, 0. Every expert has two slots.
  const Floats logits = {3.0F, 2.0F, 1.0F,  //
                         2.0F, 1.0F, 3.0F,  //
                         1.0F, 3.0F, 2.0F};
  const Ints expected = {0, 3, -3,  // the third token's second choice took expert 2's last slot
                         4, 1, -2,  //
                         2, 5, -1};
  EXPECT_EQ(routed(logits, {1, 3, 3, 3, 2}), expected);
}

TEST(Route, AnInfiniteOrInvalidLogitStillNamesTwoExperts) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(routed({-infinity, -infinity, -infinity}, {1, 1, 3, 2, 1}), (Ints{0, 1}));
  EXPECT_EQ(routed({kNan, kNan, kNan}, {1, 1, 3, 2, 1}), (Ints{0, 1}));
}

TEST(Route, ChosenExpertsGetSlots) {
  for (const RouteSize size : {RouteSize{1, 1, 1, 1, 1},
                               {3, 17, 5, 2, 4},
                               {2, 65, 8, 2, 3},  // most choices are dropped
                               {2, 33, 67, 8, 12},
                               {2, 9, 4, 4, 3},  // a token chooses all experts
                               {2, 9, 4, 2, 0},
                               {0, 5, 3, 1, 2},
                               {2, 0, 3, 2, 1}}) {
    SCOPED_TRACE(::testing::Message() << size.batch << " " << size.sequence << " " << size.experts);
    const auto chosen = random_choices(size, size.experts);
    EXPECT_EQ(routed_as_chosen(chosen, size), routing_of(chosen, size));
  }
}

TEST(Route, CountsAreOfTheExpertsAskedFor) {
  for (const RouteSize size : {RouteSize{3, 17, 7, 2, 4},
                               {2, 9, 7, 1, 9},
                               {2, 9, 7, 2, 0},
                               {0, 9, 7, 2, 2},
                               {3, 0, 7, 1, 2}}) {
    const auto routing = routing_of(random_choices(size, size.experts - 1), size);  // one is idle
    for (const auto& [first, last] :
         {std::pair<int64_t, int64_t>{0, 7}, {0, 3}, {3, 3}, {3, 7}, {7, 7}}) {
      const int64_t experts = last - first;
      Ints expected(static_cast<size_t>(size.batch * experts), 0);
      for (size_t i = 0; i < routing.size(); ++i) {
        const int64_t b = static_cast<int64_t>(i) / (size.sequence * size.choices);
        for (int64_t e = first; e < last; ++e) {
          if (routing[i] >= e * size.capacity && routing[i] < (e + 1) * size.capacity) {
            ++expected[static_cast<size_t>((e - first) * size.batch + b)];
          }
        }
      }
      IntOutput counts(size.batch * experts);
      run([&, first = first](Stream& s) {
        expert_counts(s, {.routing = routing.data(),
                          .counts = counts.data(),
                          .batch = size.batch,
                          .entries = size.sequence * size.choices,
                          .capacity = size.capacity,
                          .first_expert = first,
                          .experts = experts});
      });
      EXPECT_EQ(counts.values(), expected);
    }
  }
}

TEST(Route, LoadCountsChoicesAndDrops) {
  for (const RouteSize size : {RouteSize{3, 170, 7, 2, 40},
                               {2, 9, 7, 1, 9},
                               {2, 9, 7, 2, 0},
                               {2, 9, 7, 4, 3},
                               {0, 9, 7, 2, 2},
                               {3, 0, 7, 1, 2}}) {
    const auto chosen = random_choices(size, size.experts - 1);
    const auto routing = routing_of(chosen, size);
    Floats expected(14, 0.0F);
    for (size_t i = 0; i < chosen.size(); ++i) {
      expected[static_cast<size_t>(chosen[i])] += 1.0F;
      expected[7 + static_cast<size_t>(chosen[i])] += routing[i] < 0 ? 1.0F : 0.0F;
    }
    Output load(14);
    run([&](Stream& s) {
      expert_load(s, routing.data(), load.data(), static_cast<int64_t>(routing.size()), 7,
                  size.capacity);
    });
    EXPECT_EQ(load.values(), expected);
  }
  const Ints dropped = {-1, -1, -1};  // the result of routing to no experts
  Output nothing(0);
  run([&](Stream& s) { expert_load(s, dropped.data(), nothing.data(), 3, 0, 4); });
}

TEST(Route, HasTheSameBitsForAnyTeam) {
  const RouteSize size = {5, 301, 9, 3, 50};
  const auto logits = coarse_logits(size);
  const auto chosen = random_choices(size, size.experts);
  const int64_t entries = size.sequence * size.choices;
  expect_same_bits([&](int threads) {
    IntOutput routing(size.batch * entries);
    IntOutput as_chosen(size.batch * entries);
    IntOutput counts(size.batch * size.experts);
    Output load(2 * size.experts);
    run(
        [&](Stream& s) {
          route_forward(s, logits.data(), routing.data(), size);
          route_chosen(s, chosen.data(), as_chosen.data(), size);
          expert_counts(s, {.routing = routing.data(),
                            .counts = counts.data(),
                            .batch = size.batch,
                            .entries = entries,
                            .capacity = size.capacity,
                            .first_expert = 0,
                            .experts = size.experts});
          expert_load(s, routing.data(), load.data(), size.batch * entries, size.experts,
                      size.capacity);
        },
        threads);
    return all_of(routing, as_chosen, counts, load);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
