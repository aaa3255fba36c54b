#include "search/storage_variations.h"

#include <algorithm>
#include <bit>

namespace hidup {
namespace {

// The share of a step that hiding an update may save. Plans slower by more are left out.
constexpr double kMayHide = 0.05;

// Returns the choice that differs only in the storage of its parameters, preferably with the same
// residency; `choice` itself without any.
int stored_as(const std::vector<ChoiceMeaning>& meanings, int choice, uint64_t storage) {
  const ChoiceMeaning& now = meanings[static_cast<size_t>(choice)];
  int best = choice;
  for (size_t c = 0; c < meanings.size() && !now.parameters.empty(); ++c) {
    const ChoiceMeaning& other = meanings[c];
    const bool fits = (other.storages & storage) != 0 && other.op_strategy == now.op_strategy;
    if (fits && (best == choice || other.residency == now.residency)) {
      best = static_cast<int>(c);
    }
  }
  return best;
}

}  // namespace

std::vector<FoundPlan> storage_variations(const BuiltProblem& built, const Plan& plan) {
  const Problem& problem = built.problem;
  uint64_t storages = 0;
  for (const std::vector<ChoiceMeaning>& meanings : built.meanings) {
    for (const ChoiceMeaning& meaning : meanings) {
      storages |= meaning.storages;
    }
  }
  const double most_s = (1.0 + kMayHide) * evaluate(problem, plan.choices).seconds;
  std::vector<FoundPlan> found;
  for (; storages != 0; storages &= storages - 1) {
    const uint64_t storage = uint64_t{1} << std::countr_zero(storages);
    FoundPlan other{.plan = {.choices = plan.choices}};
    for (size_t op = 0; op < problem.ops.size(); ++op) {
      const auto& meanings = built.meanings[static_cast<size_t>(problem.ops[op].kind)];
      other.plan.choices[op] = stored_as(meanings, plan.choices[op], storage);
    }
    other.cost = evaluate(problem, other.plan.choices);
    const bool is_new = other.plan.choices != plan.choices &&
                        std::ranges::none_of(found, [&](const FoundPlan& known) {
                          return known.plan.choices == other.plan.choices;
                        });
    if (is_new && other.cost.seconds <= most_s && other.cost.bytes <= problem.memory_limit) {
      other.plan.starts = needed_starts(problem, other.plan.choices);
      found.push_back(std::move(other));
    }
  }
  return found;
}

}  // namespace hidup
