#include "brute_force.h"

#include <algorithm>

namespace hidup {
namespace {

// Calls `use` with the plan and every further stage from operation `op` on.
void with_stages(Plan& plan, size_t op, bool all, const std::function<void(const Plan&)>& use) {
  while (all && op < plan.starts.size() && plan.starts[op]) {
    ++op;
  }
  if (!all || op >= plan.starts.size()) {
    use(plan);
    return;
  }
  with_stages(plan, op + 1, all, use);
  plan.starts[op] = true;
  with_stages(plan, op + 1, all, use);
  plan.starts[op] = false;
}

}  // namespace

void for_all_plans(const Problem& problem, bool all_stages,
                   const std::function<void(const Plan&)>& use) {
  Plan plan{.choices = std::vector<int>(problem.ops.size())};
  while (true) {
    plan.starts = needed_starts(problem, plan.choices);
    with_stages(plan, 0, all_stages, use);
    size_t op = 0;  // count: the choices are digits
    while (op < plan.choices.size() &&
           static_cast<size_t>(++plan.choices[op]) == problem.choices_of(op).choices.size()) {
      plan.choices[op++] = 0;
    }
    if (op == plan.choices.size()) {
      return;
    }
  }
}

std::optional<double> least_seconds(const Problem& problem, bool all_stages) {
  std::optional<double> least;
  for_all_plans(problem, all_stages, [&](const Plan& plan) {
    const Evaluation cost = evaluate(problem, plan);
    if (cost.bytes <= problem.memory_limit) {
      least = std::min(cost.seconds, least.value_or(cost.seconds));
    }
  });
  return least;
}

}  // namespace hidup
