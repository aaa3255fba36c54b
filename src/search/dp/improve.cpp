#include "search/dp/improve.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace hidup {
namespace {

// The number of fastest plans to cross, and of evenly spaced first cuts; finer cuts around the best
// follow. Half and twice of either find the same plans on the shipped decks.
constexpr size_t kParents = 8;
constexpr size_t kCuts = 16;

class Crossover {
 public:
  Crossover(const Problem& problem, const std::vector<FoundPlan>& plans, size_t evaluations)
      : problem_(problem), left_(evaluations), parents_(plans) {
    sort(parents_);
    parents_.resize(std::min(parents_.size(), kParents));
  }

  std::vector<FoundPlan> run() {
    std::vector<FoundPlan> all;
    // Crosses the best plan with all others, and repeats that for a better one.
    for (bool better = !parents_.empty(); better;) {
      better = false;
      const FoundPlan best = parents_[0];
      for (size_t p = 1; p < parents_.size(); ++p) {
        for (const bool best_first : {true, false}) {
          const FoundPlan& other = parents_[p];
          std::optional<FoundPlan> child = best_first ? cross(best, other) : cross(other, best);
          if (child && child->cost.seconds < best.cost.seconds) {
            child->plan.starts = needed_starts(problem_, child->plan.choices);
            all.push_back(*std::move(child));
          }
        }
      }
      sort(all);
      if (!all.empty() && all[0].cost.seconds < kWorthwhile * best.cost.seconds) {
        parents_.insert(parents_.begin(), all[0]);
        better = true;
      }
    }
    return all;
  }

 private:
  // A plan better by at least this factor is crossed again. 0.99 and 0.9999 find the same.
  static constexpr double kWorthwhile = 0.999;

  static void sort(std::vector<FoundPlan>& plans) {
    std::ranges::stable_sort(plans, {}, [](const FoundPlan& found) { return found.cost.seconds; });
  }

  std::optional<FoundPlan> at(const FoundPlan& first, const FoundPlan& then, size_t cut) {
    const size_t count = problem_.ops.size();
    if (left_ < count) {
      return std::nullopt;
    }
    left_ -= count;
    Plan plan{.choices = first.plan.choices};
    std::copy(then.plan.choices.begin() + static_cast<ptrdiff_t>(cut), then.plan.choices.end(),
              plan.choices.begin() + static_cast<ptrdiff_t>(cut));
    const Evaluation cost = evaluate(problem_, plan.choices);
    return cost.bytes <= problem_.memory_limit ? std::optional(FoundPlan{std::move(plan), cost})
                                               : std::nullopt;
  }

  // Returns the best plan of the cuts tried.
  std::optional<FoundPlan> cross(const FoundPlan& first, const FoundPlan& then) {
    const size_t count = problem_.ops.size();
    std::optional<FoundPlan> best;
    size_t best_cut = 0;
    const auto try_cut = [&](size_t cut) {
      if (cut == 0 || cut >= count || first.plan.choices == then.plan.choices) {
        return;
      }
      std::optional<FoundPlan> child = at(first, then, cut);
      if (child && (!best || child->cost.seconds < best->cost.seconds)) {
        best = std::move(child);
        best_cut = cut;
      }
    };
    size_t step = std::max<size_t>(count / kCuts, 1);
    for (size_t cut = step; cut < count; cut += step) {
      try_cut(cut);
    }
    while (step > 1 && best) {
      step = (step + 1) / 2;
      const size_t middle = best_cut;
      try_cut(middle - std::min(step, middle));
      try_cut(middle + step);
    }
    return best;
  }

  const Problem& problem_;
  size_t left_;
  std::vector<FoundPlan> parents_;
};

}  // namespace

Plan descended(const Problem& problem, const Plan& plan, size_t evaluations) {
  const size_t count = problem.ops.size();
  std::vector<int> choices = plan.choices;
  double least = evaluate(problem, choices).seconds;
  // Ends after as many operations without a better choice as there are.
  for (size_t op = 0, vain = 0; vain < count; op = (op + 1) % count) {
    ++vain;
    const int before = choices[op];
    int best = before;
    const size_t others = problem.choices_of(op).choices.size();
    if (evaluations < others * count) {
      break;
    }
    evaluations -= others * count;
    for (choices[op] = 0; choices[op] < static_cast<int>(others); ++choices[op]) {
      const Evaluation cost = evaluate(problem, choices);
      if (cost.bytes <= problem.memory_limit && cost.seconds < least) {
        least = cost.seconds;
        best = choices[op];
        vain = 0;
      }
    }
    choices[op] = best;
  }
  return {.choices = choices, .starts = needed_starts(problem, choices)};
}

std::vector<FoundPlan> variations(const Problem& problem, const Plan& plan, size_t count) {
  std::vector<FoundPlan> best;
  for (size_t kind = 0; kind < problem.kinds.size(); ++kind) {
    std::optional<FoundPlan> of_kind;
    for (size_t c = 0; c < problem.kinds[kind].choices.size(); ++c) {
      Plan other{.choices = plan.choices};
      for (size_t op = 0; op < problem.ops.size(); ++op) {
        if (static_cast<size_t>(problem.ops[op].kind) == kind) {
          other.choices[op] = static_cast<int>(c);
        }
      }
      if (other.choices == plan.choices) {
        continue;
      }
      const Evaluation cost = evaluate(problem, other.choices);
      if (cost.bytes <= problem.memory_limit &&
          (!of_kind || cost.seconds < of_kind->cost.seconds)) {
        of_kind = {std::move(other), cost};
      }
    }
    if (of_kind) {
      of_kind->plan.starts = needed_starts(problem, of_kind->plan.choices);
      best.push_back(*std::move(of_kind));
    }
  }
  std::ranges::stable_sort(best, {}, [](const FoundPlan& found) { return found.cost.seconds; });
  best.resize(std::min(best.size(), count));
  return best;
}

std::vector<FoundPlan> crossover(const Problem& problem, const std::vector<FoundPlan>& plans,
                                 size_t evaluations) {
  return Crossover(problem, plans, evaluations).run();
}

}  // namespace hidup
