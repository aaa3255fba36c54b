#include "search/relax.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace hidup {
namespace {

// What a second counts for.
struct Shares {
  Shares(const Problem& problem, double weight)
      : compute(problem.interference + (1.0 - problem.interference) * weight),
        message(problem.interference + (1.0 - problem.interference) * (1.0 - weight)),
        comm(problem.microbatches == 1 ? 1.0 : message) {
    compute *= problem.microbatches;
    comm *= problem.microbatches;
  }
  double compute, message, comm;
};

void weigh(std::vector<Reshard>& reshards, const Shares& shares) {
  for (Reshard& reshard : reshards) {
    reshard.compute_s *= shares.compute;
    reshard.comm_s *= shares.comm;
  }
}

}  // namespace

Problem without_overlap(const Problem& problem, const Weights& weights) {
  Problem result = problem;
  result.microbatches = 1;
  result.interference = 0.0;
  const Shares forward(problem, weights.forward);
  const Shares backward(problem, weights.backward);
  for (TensorCosts& tensor : result.tensors) {
    weigh(tensor.forward, forward);
    weigh(tensor.backward, backward);
  }
  for (OpChoices& kind : result.kinds) {
    for (Choice& choice : kind.choices) {
      choice.forward_compute_s *= forward.compute;
      choice.backward_compute_s *= backward.compute;
      choice.forward_comm_s *= forward.comm;
      choice.backward_comm_s *= backward.comm;
      choice.step_s += forward.message * choice.gather_s + backward.message * choice.sync_s;
      choice.gather_s = choice.sync_s = 0.0;
    }
  }
  return result;
}

std::vector<int> quiet_choices(const Problem& problem) {
  std::vector<int> chosen;
  std::vector<int> layouts;  // of the outputs
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const std::vector<Choice>& choices = problem.choices_of(op).choices;
    const auto added = [&](const Choice& choice) {
      double seconds =
          choice.forward_comm_s + choice.backward_comm_s + choice.gather_s + choice.sync_s;
      for (size_t i = 0; i < choice.inputs.size(); ++i) {
        const auto producer = static_cast<size_t>(problem.ops[op].inputs[i]);
        const TensorCosts& costs = problem.tensor_of(producer);
        const auto [wants, gives] = choice.inputs[i];
        seconds += costs.forward[problem.entry(layouts[producer], wants)].comm_s;
        seconds += gives < 0 ? 0.0 : costs.backward[problem.entry(layouts[producer], gives)].comm_s;
      }
      return seconds;
    };
    const auto best = std::ranges::min_element(choices, {}, added);
    chosen.push_back(static_cast<int>(best - choices.begin()));
    layouts.push_back(best->output);
  }
  return chosen;
}

Line line_of(const Problem& problem, const std::vector<int>& choices) {
  const auto seconds = [&](const Weights& weights) {
    return evaluate(without_overlap(problem, weights), choices).seconds;
  };
  const double at = seconds({0.0, 0.0});
  return {at, seconds({1.0, 0.0}) - at, seconds({0.0, 1.0}) - at};
}

double least(const std::vector<Line>& lines, const Weights& weights) {
  double least = std::numeric_limits<double>::infinity();
  for (const Line& line : lines) {
    least = std::min(least,
                     line.at + line.forward * weights.forward + line.backward * weights.backward);
  }
  return least;
}

Weights highest(const std::vector<Line>& lines) {
  constexpr int kSteps = 64;
  Weights best;
  double most = -std::numeric_limits<double>::infinity();
  for (int f = 0; f <= kSteps; ++f) {
    for (int b = 0; b <= kSteps; ++b) {
      const Weights weights{static_cast<double>(f) / kSteps, static_cast<double>(b) / kSteps};
      const double height = least(lines, weights);
      if (height > most) {
        most = height;
        best = weights;
      }
    }
  }
  return best;
}

}  // namespace hidup
