#include "search/dp/additive.h"

#include <limits>
#include <utility>
#include <vector>

#include "core/check.h"
#include "search/dp/dynamic.h"

namespace hidup {

Plan cheapest_plan(Problem problem, const AdditiveObjective& objective) {
  const auto replace = [&](Reshards& reshards) {
    for (Reshard& reshard : reshards.all) {
      reshard = {.comm_s = objective.reshard(reshard)};
    }
  };
  for (TensorCosts& tensor : problem.tensors) {
    replace(tensor.forward);
    replace(tensor.backward);
  }
  for (OpChoices& kind : problem.kinds) {
    for (Choice& choice : kind.choices) {
      choice = {
          .inputs = choice.inputs, .output = choice.output, .step_s = objective.choice(choice)};
    }
  }
  problem.microbatches = 1;
  problem.interference = 0.0;
  problem.memory_limit = std::numeric_limits<double>::infinity();
  // Where costs add up, the first bound of solve() equals the cost of its plan.
  DynamicResult found = solve(problem, {.width = 1, .states = 50, .bounds = 1, .gap = 0.0});
  if (found.plans.empty()) {
    TimeLimit::check();
  }
  check(!found.plans.empty(), "no plan where everything is allowed");
  return std::move(found.plans.front().plan);
}

Plan least_memory_plan(const Problem& problem) {
  return cheapest_plan(
      problem,
      {.choice = [](const Choice& choice) { return choice.persistent_bytes + choice.saved_bytes; },
       .reshard = [](const Reshard& reshard) { return reshard.bytes; }});
}

}  // namespace hidup
