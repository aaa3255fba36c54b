#include "brute_force.h"

#include <algorithm>
#include <limits>

namespace hidup {

void for_all_plans(const Problem& problem, const std::function<void(const Plan&)>& use) {
  Plan plan{.choices = std::vector<int>(problem.ops.size())};
  while (true) {
    plan.starts = needed_starts(problem, plan.choices);
    use(plan);
    size_t op = 0;  // counts up; the choices are digits
    while (op < plan.choices.size() &&
           static_cast<size_t>(++plan.choices[op]) == problem.choices_of(op).choices.size()) {
      plan.choices[op++] = 0;
    }
    if (op == plan.choices.size()) {
      return;
    }
  }
}

std::optional<double> least_seconds(const Problem& problem) {
  std::optional<double> least;
  for_all_plans(problem, [&](const Plan& plan) {
    const Evaluation cost = evaluate(problem, plan);
    if (cost.bytes <= problem.memory_limit) {
      least = std::min(cost.seconds, least.value_or(cost.seconds));
    }
  });
  return least;
}

double some_limit(const Problem& problem) {
  double least = std::numeric_limits<double>::infinity();
  double most = 0.0;
  for_all_plans(problem, [&](const Plan& plan) {
    const double bytes = evaluate(problem, plan).bytes;
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  });
  return least + 0.3 * (most - least);
}

}  // namespace hidup
