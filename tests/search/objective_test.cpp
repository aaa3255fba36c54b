// Assumptions of the dynamic programming: a plan that costs less takes no more time, and a second
// of a message costs at most a second.
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

// Removes one cost of a choice or of a reshard from the problem.
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

// One pass by the sum over stages in problem.h. A stage is counted when the next one begins.
class SumOverStages {
 public:
  SumOverStages(const Problem& problem, bool forward)
      : turns_(problem.microbatches - 1),
        further_(forward ? 0.0 : turns_),
        interference_(problem.interference) {}

  void communicate(double comm) {
    if (comm <= 0.0) {
      return;
    }
    seconds_ += turns_ * overlap(compute_, comm_);
    if (turns_ == 0) {
      seconds_ += compute_ + comm;
      idle_ = 0.0;
    } else {
      seconds_ += overlap(compute_, comm);
      const double claimed = std::min(compute_, comm);
      seconds_ += (1.0 - interference_) * std::max(0.0, claimed - idle_);
      idle_ = std::max(0.0, std::min(idle_, compute_) - comm);
    }
    idle_in_turns_ = 0.0;
    compute_ = 0.0;
    comm_ = comm;
  }

  void message(double seconds) {
    const double in_turns = std::min(seconds, idle_in_turns_);
    const double hidden = std::min(seconds, idle_in_turns_ + idle_);
    seconds_ += seconds - hidden + interference_ * hidden;
    idle_in_turns_ -= in_turns;
    idle_ -= hidden - in_turns;
  }

  void compute(double seconds) {
    const double excess = std::max(0.0, compute_ - comm_);
    compute_ += seconds;
    idle_ += seconds;
    idle_in_turns_ += further_ * (std::max(0.0, compute_ - comm_) - excess);
  }

  double finish() const { return seconds_ + turns_ * overlap(compute_, comm_) + compute_; }

 private:
  double overlap(double x, double y) const {
    return std::max(x, y) + interference_ * std::min(x, y);
  }

  double turns_;    // one microbatch computes, another communicates
  double further_;  // part of the turns whose computation hides messages
  double interference_;
  double seconds_ = 0.0;               // closed stages, and messages
  double compute_ = 0.0, comm_ = 0.0;  // of the open stage
  // Unused idle time of the communication stream: beside one microbatch, and beside the others.
  double idle_ = 0.0, idle_in_turns_ = 0.0;
};

// Returns a chain of operations with one choice each, whose values never change their layout.
Problem random_chain(std::mt19937_64& random) {
  std::uniform_real_distribution<double> cost(-0.5, 1.0);
  const auto some = [&] { return std::max(0.0, cost(random)); };
  Problem problem{.microbatches = 1 + static_cast<int>(random() % 4),
                  .interference = static_cast<double>(random() % 3) / 2.0,
                  .tensors = {{}}};
  for (int op = 0; op < 6; ++op) {
    Choice choice{.forward_compute_s = some(),
                  .backward_compute_s = some(),
                  .forward_comm_s = some(),
                  .backward_comm_s = some(),
                  .gather_s = some(),
                  .sync_s = some()};
    SearchOp chained{.kind = op};
    if (op > 0) {
      chained.inputs = {op - 1};
      choice.inputs = {{.required = 0, .gradient = 0}};
    }
    problem.kinds.push_back({.choices = {choice}});
    problem.ops.push_back(chained);
  }
  return problem;
}

TEST(Objective, IsTheSumOverStages) {
  std::mt19937_64 random(1);
  for (int chain = 0; chain < 20000; ++chain) {
    const Problem problem = random_chain(random);
    SumOverStages forward(problem, true);
    SumOverStages backward(problem, false);
    for (const OpChoices& kind : problem.kinds) {
      const Choice& choice = kind.choices[0];
      forward.communicate(choice.forward_comm_s);
      forward.message(choice.gather_s);
      forward.compute(choice.forward_compute_s);
      backward.message(choice.sync_s);
      backward.communicate(choice.backward_comm_s);
      backward.compute(choice.backward_compute_s);
    }
    const double seconds = forward.finish() + backward.finish();
    ASSERT_NEAR(evaluate(problem, std::vector<int>(problem.ops.size())).seconds, seconds,
                1e-12 * seconds)
        << "chain " << chain;
  }
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

// One message becomes longer.
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
