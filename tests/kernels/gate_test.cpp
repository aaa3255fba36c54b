#include "kernels/gate.h"

#include <numeric>

#include "routing_test.h"

namespace hidup::kernels::testing {
namespace {

// Returns weights[t, c] from the whole softmax in double.
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
      p.push_back(std::exp(logits[static_cast<size_t>(t * size.experts + e)]) / sum);
    }
    const double all =
        size.choices == 1 || !size.normalize ? 1.0 : std::accumulate(p.begin(), p.end(), 0.0);
    for (const double value : p) {
      weights.push_back(value / all);
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
    for (const bool normalize : {true, false}) {
      const GateSize size = {route.batch * route.sequence, route.experts, route.choices,
                             route.capacity, normalize};
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

TEST(Gate, HasTheSameBitsForAnyTeam) {
  for (const auto& [choices, normalize] :
       {std::pair<int64_t, bool>{1, true}, {2, true}, {3, true}, {3, false}}) {
    const RouteSize route = {3, 170, 37, choices, 8};
    const GateSize size = {510, 37, choices, 8, normalize};
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
