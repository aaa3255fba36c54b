#include "kernels/gate.h"

#include <numeric>

#include "routing_test.h"

namespace hidup::kernels::testing {
namespace {

// Returns weights[t, c] from the whole softmax, or from sigmoids, in double.
Doubles reference(const Doubles& logits, const Ints& chosen, const GateSize& size) {
  Doubles weights;
  for (int64_t t = 0; t < size.tokens; ++t) {
    double sum = 0.0;
    for (int64_t e = 0; e < size.experts; ++e) {
      sum += std::exp(logits[static_cast<size_t>(t * size.experts + e)]);
    }
    Doubles p;
    for (int64_t c = 0; c < size.choices; ++c) {
      const int64_t e = chosen[static_cast<size_t>(t * size.choices + c)];
      const double x = logits[static_cast<size_t>(t * size.experts + e)];
      p.push_back(size.sigmoid ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / sum);
    }
    const double all =
        size.choices == 1 || !size.normalize ? 1.0 : std::accumulate(p.begin(), p.end(), 0.0);
    for (const double value : p) {
      weights.push_back(static_cast<double>(size.scale) * value / all);
    }
  }
  return weights;
}

TEST(Gate, AgreesWithDoubleAndItsDifferences) {
  for (const RouteSize route : {RouteSize{1, 1, 1, 1, 1},
                                {1, 1, 2, 2, 1},
                                {1, 1, 1, 2, 2},  // one expert as both choices
                                {3, 17, 5, 1, 2},
                                {3, 17, 5, 2, 2},
                                {2, 9, 67, 1, 4},
                                {3, 67, 5, 1, 40},
                                {3, 67, 5, 2, 40},
                                {2, 9, 67, 2, 0},
                                {3, 17, 5, 3, 2},
                                {3, 17, 4, 4, 9},  // all experts
                                {2, 9, 67, 8, 4},
                                {1, 3, 1, 3, 2},  // one expert as all choices
                                {0, 9, 5, 2, 2},
                                {2, 0, 5, 1, 2}}) {
    SCOPED_TRACE(::testing::Message() << route.sequence << " " << route.experts);
    for (const auto& [normalize, sigmoid, scale] : {std::tuple{true, false, 1.0F},
                                                    {false, false, 2.5F},
                                                    {true, true, 2.5F},
                                                    {false, true, 1.0F},
                                                    {true, false, 0.5F}}) {
      const GateSize size = {.tokens = route.batch * route.sequence,
                             .experts = route.experts,
                             .choices = route.choices,
                             .capacity = route.capacity,
                             .normalize = normalize,
                             .sigmoid = sigmoid,
                             .scale = scale};
      const auto chosen = random_choices(route, route.experts);
      const auto routing = routing_of(chosen, route);  // some choices are dropped
      const auto logits = random_floats("logits", size.tokens * size.experts, 2.0);
      const auto dweights = random_floats("dweights", size.tokens * size.choices);
      Output weights(size.tokens * size.choices);
      Output dlogits(size.tokens * size.experts);
      run([&](Stream& s) {
        gate_forward(s, logits.data(), routing.data(), weights.data(), size);
        gate_backward(s, logits.data(), routing.data(), dweights.data(), dlogits.data(), size);
      });
      expect_close(weights, reference(to_doubles(logits), chosen, size), 8.0 * kEpsilon, "weights");
      const Doubles factors = to_doubles(dweights);
      expect_gradient([&](const Doubles& at) { return dot(reference(at, chosen, size), factors); },
                      to_doubles(logits), dlogits, 1e-6, "dlogits");
    }
  }
}

TEST(Gate, WithoutExpertsWeightsAreZero) {
  const Ints routing = {-1, -1};
  const Floats dweights = {1.0F, 1.0F};
  Output weights(2);
  Output dlogits(0);
  run([&](Stream& s) {
    gate_forward<float>(s, nullptr, routing.data(), weights.data(), {2, 0, 1, 4});
    gate_backward<float>(s, nullptr, routing.data(), dweights.data(), dlogits.data(), {2, 0, 1, 4});
  });
  EXPECT_EQ(weights.values(), (Floats{0.0F, 0.0F}));
}

TEST(Gate, LargeLogitsDoNotOverflow) {
  const Floats logits = {1e4F, -1e4F, 0.0F};
  for (const int64_t choices : {1, 2}) {
    for (const Ints& routing :
         {Ints{0, 1}, {1, 2}, {2, 0}}) {  // at capacity 1 the entries are the experts
      const GateSize size = {1, 3, choices, 1};
      const Floats dweights = {1.0F, -2.0F};
      Output weights(choices);
      Output dlogits(3);
      run([&](Stream& s) {
        gate_forward(s, logits.data(), routing.data(), weights.data(), size);
        gate_backward(s, logits.data(), routing.data(), dweights.data(), dlogits.data(), size);
      });
      const bool largest = choices == 1 ? routing[0] == 0 : routing[0] != 1;
      const bool second = choices == 2 && routing[0] == 2;
      EXPECT_EQ(weights[0], largest && !second ? 1.0F : 0.0F);
      EXPECT_EQ(dlogits.values(), (Floats{0.0F, 0.0F, 0.0F}));
    }
  }
}

// Sigmoids of e^-100 and e^-102 are 0 in float, but their shares of the sum are not.
TEST(Gate, SigmoidsOfLargeLogitsKeepTheirShares) {
  const Floats logits = {-100.0F, -102.0F, 200.0F};
  const Floats dweights = {1.0F, -2.0F};
  const double share = 1.0 / (1.0 + std::exp(-2.0));
  for (const bool normalize : {true, false}) {
    const GateSize size = {.tokens = 1,
                           .experts = 3,
                           .choices = 2,
                           .capacity = 1,
                           .normalize = normalize,
                           .sigmoid = true};
    Output weights(2);
    Output dlogits(3);
    const Ints routing = {0, 1};
    run([&](Stream& s) {
      gate_forward(s, logits.data(), routing.data(), weights.data(), size);
      gate_backward(s, logits.data(), routing.data(), dweights.data(), dlogits.data(), size);
    });
    const double slope = normalize ? 3.0 * share * (1.0 - share) : 0.0;
    expect_close(weights, normalize ? Doubles{share, 1.0 - share} : Doubles{0.0, 0.0},
                 8.0 * kEpsilon, "weights");
    expect_close(dlogits, {slope, -slope, 0.0}, 1e-6, "dlogits");
  }
}

TEST(Gate, HasTheSameBitsForAnyTeam) {
  for (const auto& [choices, normalize, sigmoid] : {std::tuple<int64_t, bool, bool>{1, true, false},
                                                    {2, true, false},
                                                    {3, true, true},
                                                    {3, false, true},
                                                    {3, false, false}}) {
    const RouteSize route = {3, 170, 37, choices, 8};
    const GateSize size = {510, 37, choices, 8, normalize, sigmoid};
    const auto routing = random_routing(route);
    const auto logits = random_floats("logits", size.tokens * size.experts, 2.0);
    const auto dweights = random_floats("dweights", size.tokens * size.choices);
    expect_same_bits([&](int threads) {
      Output weights(size.tokens * size.choices);
      Output dlogits(size.tokens * size.experts);
      run(
          [&](Stream& s) {
            gate_forward(s, logits.data(), routing.data(), weights.data(), size);
            gate_backward(s, logits.data(), routing.data(), dweights.data(), dlogits.data(), size);
          },
          threads);
      return all_of(weights, dlogits);
    });
  }
}

}  // namespace
}  // namespace hidup::kernels::testing
