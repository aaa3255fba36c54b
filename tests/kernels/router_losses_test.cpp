#include "kernels/router_losses.h"

#include "kernels/step_state.h"
#include "routing_test.h"

namespace hidup::kernels::testing {
namespace {

struct RouterCase {
  RouteSize route;
  int64_t counted;

  int64_t tokens() const { return route.batch * route.sequence; }
};

std::vector<RouterCase> router_cases() {
  return {{{1, 1, 1, 1, 1}, 1},       {{3, 17, 5, 1, 2}, 1}, {{3, 17, 5, 2, 2}, 2},
          {{3, 17, 5, 3, 4}, 1},      {{2, 65, 8, 4, 3}, 4},  // most choices are dropped
          {{2, 33, 67, 3, 40}, 3},    {{2, 9, 4, 2, 0}, 2},   // all choices are dropped
          {{1, 2500, 3, 2, 2000}, 2}, {{0, 5, 3, 1, 2}, 1}};
}

// The softmax of a row of logits.
struct Softmax {
  Doubles p;
  double lse = 0.0;
};
Softmax softmax_of(const Doubles& logits, int64_t t, int64_t experts) {
  Softmax softmax;
  double sum = 0.0;
  for (int64_t e = 0; e < experts; ++e) {
    softmax.p.push_back(std::exp(logits[static_cast<size_t>(t * experts + e)]));
    sum += softmax.p.back();
  }
  for (double& p : softmax.p) {
    p /= sum;
  }
  softmax.lse = std::log(sum);
  return softmax;
}

// Returns the sums, [3, experts].
Doubles reference_sums(const Doubles& logits, const Ints& chosen, const RouterCase& at) {
  const auto experts = static_cast<size_t>(at.route.experts);
  const auto choices = static_cast<size_t>(at.route.choices);
  Doubles sums(3 * experts, 0.0);
  for (int64_t t = 0; t < at.tokens(); ++t) {
    const Softmax softmax = softmax_of(logits, t, at.route.experts);
    const size_t first = static_cast<size_t>(t) * choices;
    for (size_t e = 0; e < experts; ++e) {
      sums[e] += softmax.p[e];
    }
    for (int64_t c = 0; c < at.counted; ++c) {
      sums[experts + static_cast<size_t>(chosen[first + static_cast<size_t>(c)])] += 1.0;
    }
    sums[2 * experts + static_cast<size_t>(chosen[first])] += softmax.lse * softmax.lse;
  }
  return sums;
}

void sums_of(Stream& stream, const RouterCase& at, const Floats& logits, const Ints& routing,
             Output& sums) {
  router_sums<float>(stream, {.logits = logits.data(),
                              .routing = routing.data(),
                              .sums = sums.data(),
                              .tokens = at.tokens(),
                              .experts = at.route.experts,
                              .choices = at.route.choices,
                              .counted = at.counted,
                              .capacity = at.route.capacity});
}

struct Weights {
  float balance = 1.0F;
  float z = 1.0F;
};

void gradient_of(Stream& stream, const RouterCase& at, const Floats& logits, const float* sums,
                 const Weights& weights, const StepState* state, Output& dlogits,
                 bool accumulate = false, int64_t parts = 1) {
  router_losses_backward<float>(stream, {.logits = logits.data(),
                                         .sums = sums,
                                         .dlogits = dlogits.data(),
                                         .tokens = at.tokens(),
                                         .experts = at.route.experts,
                                         .all_tokens = parts * at.tokens(),
                                         .counted = at.counted,
                                         .balance = weights.balance,
                                         .z = weights.z,
                                         .accumulate = accumulate,
                                         .state = state});
}

TEST(RouterLosses, SumsAreThoseOfTheDefinition) {
  for (const RouterCase& at : router_cases()) {
    SCOPED_TRACE(::testing::Message() << at.route.sequence << " " << at.route.experts);
    const auto chosen = random_choices(at.route, at.route.experts);
    const auto routing = routing_of(chosen, at.route);
    const auto logits = random_floats("logits", at.tokens() * at.route.experts, 2.0);
    Output sums(3 * at.route.experts);
    run([&](Stream& s) { sums_of(s, at, logits, routing, sums); });
    expect_close(sums, reference_sums(to_doubles(logits), chosen, at), 64.0 * kEpsilon, "sums");
  }
}

// The tokens are half of all; the other half changes the counts only.
TEST(RouterLosses, GradientsAreDifferencesOfTheLosses) {
  const OnDevice<StepState> state({.step = 1, .loss_scale = 4.0F});
  for (const RouterCase& at : router_cases()) {
    SCOPED_TRACE(::testing::Message() << at.route.sequence << " " << at.route.experts);
    const int64_t experts = at.route.experts;
    const int64_t n = at.tokens() * experts;
    const int64_t all_tokens = 2 * at.tokens();
    const auto logits = random_floats("logits", n, 2.0);
    const auto start = random_floats("start", n);
    Floats sums(static_cast<size_t>(3 * experts), kNan);
    for (int64_t e = 0; e < experts; ++e) {
      sums[static_cast<size_t>(experts + e)] = static_cast<float>((7 * e + 3) % 11);
    }
    const auto losses = [&](const Doubles& x) {
      double total = 0.0;
      for (int64_t t = 0; t < at.tokens(); ++t) {
        const Softmax softmax = softmax_of(x, t, experts);
        for (int64_t e = 0; e < experts; ++e) {
          const double f = static_cast<double>(sums[static_cast<size_t>(experts + e)]) /
                           static_cast<double>(all_tokens * at.counted);
          total += 30.0 * f * softmax.p[static_cast<size_t>(e)];
        }
        total += 0.5 * softmax.lse * softmax.lse;
      }
      return 4.0 * total / static_cast<double>(all_tokens);
    };
    for (const bool accumulate : {false, true}) {
      Output dlogits(accumulate ? start : Floats(static_cast<size_t>(n), kNan));
      run([&](Stream& s) {
        gradient_of(s, at, logits, sums.data(), {30.0F, 0.5F}, state.get(), dlogits, accumulate, 2);
      });
      Doubles added = to_doubles(dlogits.values());
      for (size_t i = 0; accumulate && i < added.size(); ++i) {
        added[i] -= static_cast<double>(start[i]);
      }
      expect_gradient(losses, to_doubles(logits), added, 1e-6, "dlogits");
    }
  }
}

TEST(RouterLosses, LargeLogitsDoNotOverflow) {
  const Floats logits = {1e4F, -1e4F, 0.0F};
  const Ints routing = {0};
  const OnDevice<StepState> state({.step = 1});
  Output sums(3 * 3);
  Output dlogits(3);
  const RouterCase at{{1, 1, 3, 1, 1}, 1};
  run([&](Stream& s) {
    sums_of(s, at, logits, routing, sums);
    gradient_of(s, at, logits, sums.data(), {3.0F, 1.0F}, state.get(), dlogits);
  });
  EXPECT_EQ(sums.values(), (Floats{1.0F, 0.0F, 0.0F, 1.0F, 0.0F, 0.0F, 1e8F, 0.0F, 0.0F}));
  EXPECT_EQ(dlogits.values(), (Floats{2e4F, 0.0F, 0.0F}));
}

TEST(RouterLosses, WithoutExpertsThereIsNothing) {
  const Ints routing = {-1, -1};
  const OnDevice<StepState> state({.step = 1});
  Output nothing(0);
  const RouterCase at{{1, 2, 0, 1, 4}, 1};
  run([&](Stream& s) {
    sums_of(s, at, {}, routing, nothing);
    gradient_of(s, at, {}, nothing.data(), {}, state.get(), nothing);
  });
}

TEST(RouterLosses, HaveTheSameBitsForAnyTeam) {
  const RouteSize route = {3, 170, 37, 3, 8};
  const int64_t tokens = route.batch * route.sequence;
  const auto routing = random_routing(route);
  const auto logits = random_floats("logits", tokens * route.experts, 2.0);
  const OnDevice<StepState> state({.step = 1});
  expect_same_bits([&](int threads) {
    Output sums(3 * route.experts);
    Output dlogits(tokens * route.experts);
    run(
        [&](Stream& s) {
          sums_of(s, {route, 2}, logits, routing, sums);
          gradient_of(s, {route, 2}, logits, sums.data(), {}, state.get(), dlogits);
        },
        threads);
    return all_of(sums, dlogits);
  });
}

}  // namespace
}  // namespace hidup::kernels::testing
