#include "search/dp/relax.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace hidup {
namespace {

// Factors on seconds in the relaxed problem.
struct Factors {
  Factors(const Problem& problem, double weight)
      : compute(problem.interference + (1.0 - problem.interference) * weight),
        message(problem.interference + (1.0 - problem.interference) * (1.0 - weight)),
        comm(problem.microbatches == 1 ? 1.0 : message) {
    compute *= problem.microbatches;
    comm *= problem.microbatches;
  }
  double compute, message, comm;
};

void weigh(Reshards& reshards, const Factors& factors) {
  for (Reshard& reshard : reshards.all) {
    reshard.compute_s *= factors.compute;
    reshard.comm_s *= factors.comm;
  }
}

}  // namespace

Problem without_overlap(const Problem& problem, const Weights& weights) {
  Problem result = problem;
  result.microbatches = 1;
  result.interference = 0.0;
  const Factors forward(problem, weights.forward);
  const Factors backward(problem, weights.backward);
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

std::vector<int> least_communication_choices(const Problem& problem) {
  std::vector<int> chosen;
  std::vector<int> layouts;  // of outputs
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    const std::vector<Choice>& choices = problem.choices_of(op).choices;
    const auto added = [&](const Choice& choice) {
      double seconds =
          choice.forward_comm_s + choice.backward_comm_s + choice.gather_s + choice.sync_s;
      for (size_t i = 0; i < choice.inputs.size(); ++i) {
        const auto producer = static_cast<size_t>(problem.ops[op].inputs[i]);
        const TensorCosts& costs = problem.tensor_of(producer);
        const auto [required, gradient] = choice.inputs[i];
        seconds += costs.forward.between(layouts[producer], required).comm_s;
        seconds += gradient < 0 ? 0.0 : costs.backward.between(layouts[producer], gradient).comm_s;
      }
      return seconds;
    };
    const auto best = std::ranges::min_element(choices, {}, added);
    chosen.push_back(static_cast<int>(best - choices.begin()));
    layouts.push_back(best->output);
  }
  return chosen;
}

CuttingPlane cutting_plane_of(const Problem& problem, const std::vector<int>& choices) {
  const auto seconds = [&](const Weights& weights) {
    return evaluate(without_overlap(problem, weights), choices).seconds;
  };
  const double constant = seconds({0.0, 0.0});
  return {constant, seconds({1.0, 0.0}) - constant, seconds({0.0, 1.0}) - constant};
}

double least_value(const std::vector<CuttingPlane>& planes, const Weights& weights) {
  double least = std::numeric_limits<double>::infinity();
  for (const CuttingPlane& plane : planes) {
    least = std::min(least, plane.constant + plane.forward * weights.forward +
                                plane.backward * weights.backward);
  }
  return least;
}

Weights highest_weights(const std::vector<CuttingPlane>& planes) {
  constexpr int kSteps = 64;  // per weight; with 16, lower bounds are 1 to 2 % lower
  Weights best;
  double most = -std::numeric_limits<double>::infinity();
  for (int f = 0; f <= kSteps; ++f) {
    for (int b = 0; b <= kSteps; ++b) {
      const Weights weights{static_cast<double>(f) / kSteps, static_cast<double>(b) / kSteps};
      const double height = least_value(planes, weights);
      if (height > most) {
        most = height;
        best = weights;
      }
    }
  }
  return best;
}

}  // namespace hidup
