// What the dynamic programming rests on: a plan that costs less takes no more time, and a second of
// a message no more than a second.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "random_problem.h"

namespace hidup {
namespace {

std::vector<int> random_choices(const Problem& problem, std::mt19937_64& random) {
  std::vector<int> choices;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const size_t count = problem.choices_of(op).choices.size();
    choices.push_back(static_cast<int>(random() % count));
  }
  return choices;
}

// The problem with one cost of one choice, or of one reshard, taken away.
Problem with_one_cost_less(Problem problem, std::mt19937_64& random) {
  const auto one_of = [&](auto& items) -> auto& {
    return items[random() % items.size()];
  };
  if (random() % 4 == 0) {
    TensorCosts& tensor = one_of(problem.tensors);
    Reshard& reshard = one_of((random() % 2 == 0 ? tensor.forward : tensor.backward).all);
    (random() % 2 == 0 ? reshard.comm_s : reshard.compute_s) = 0.0;
    return problem;
  }
  constexpr std::array kCosts = {&Choice::forward_compute_s,
                                 &Choice::backward_compute_s,
                                 &Choice::forward_comm_s,
                                 &Choice::backward_comm_s,
                                 &Choice::gather_s,
                                 &Choice::sync_s,
                                 &Choice::step_s};
  one_of(one_of(problem.kinds).choices).*one_of(kCosts) = 0.0;
  return problem;
}

TEST(Objective, IsMonotoneInEveryCost) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < 100000; ++seed) {
    const Problem problem = random_problem(
        {.seed = seed, .microbatches = 1 + static_cast<int>(seed % 4), .ops = 2 + seed % 5});
    const std::vector<int> choices = random_choices(problem, random);
    const double seconds = evaluate(problem, choices).seconds;
    const double less = evaluate(with_one_cost_less(problem, random), choices).seconds;
    ASSERT_LE(less, seconds * (1.0 + 1e-12)) << "seed " << seed;
  }
}

// Where a message is longer.
TEST(Objective, MessagesCostAtMostTheirTime) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> part(0.0, 2.0);
  for (uint64_t seed = 0; seed < 100000; ++seed) {
    Problem problem = random_problem(
        {.seed = seed, .microbatches = 1 + static_cast<int>(seed % 4), .ops = 2 + seed % 5});
    const std::vector<int> choices = random_choices(problem, random);
    const double before = evaluate(problem, choices).seconds;
    const size_t op = random() % choices.size();
    auto& kind = problem.kinds[static_cast<size_t>(problem.ops[op].kind)];
    Choice& choice = kind.choices[static_cast<size_t>(choices[op])];
    const double longer = part(random) * (choice.gather_s + choice.sync_s);
    (random() % 2 == 0 ? choice.gather_s : choice.sync_s) += longer;
    const auto times = std::ranges::count_if(problem.ops, [&](const SearchOp& other) {
      return other.kind == problem.ops[op].kind &&
             choices[static_cast<size_t>(&other - problem.ops.data())] == choices[op];
    });
    ASSERT_LE(evaluate(problem, choices).seconds,
              (before + static_cast<double>(times) * longer) * (1.0 + 1e-12))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace hidup
