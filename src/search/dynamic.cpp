#include "search/dynamic.h"

#include <algorithm>
#include <cmath>

#include "search/improve.h"
#include "search/relax.h"
#include "search/sweep.h"

namespace hidup {
namespace {

constexpr double kRounding = 1e-9;  // by which sums in another order may differ
constexpr int kMostPrices = 40;     // of memory
constexpr double kNearPrices = 1.02;
constexpr size_t kMostCertified = 300;  // operations
constexpr size_t kMostStates = 200;
constexpr size_t kWider = 3;
constexpr double kCertified = 0.02;  // the gap that is small enough
constexpr double kNearBound = 0.002;
constexpr size_t kEvaluations = 150000;  // of operations, to improve plans

// What no plan can do without: every operation's computation, in all microbatches.
double compute_bound(const Problem& problem) {
  double seconds = problem.base_s;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    double least = std::numeric_limits<double>::infinity();
    for (const Choice& choice : problem.choices_of(op).choices) {
      least = std::min(
          least, problem.microbatches * (choice.forward_compute_s + choice.backward_compute_s) +
                     choice.step_s);
    }
    seconds += least;
  }
  return seconds;
}

// The most that any plan needs, or the least.
double bytes_bound(const Problem& problem, bool most) {
  double bytes = problem.base_bytes;
  const auto dearest = [&problem](const std::vector<Reshard>& reshards, int to) {
    double largest = 0.0;
    for (int from = 0; to >= 0 && from < problem.layouts; ++from) {
      largest = std::max(largest, reshards[problem.entry(from, to)].bytes);
    }
    return largest;
  };
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    double own = most ? 0.0 : std::numeric_limits<double>::infinity();
    for (const Choice& choice : problem.choices_of(op).choices) {
      double needed = choice.persistent_bytes + choice.saved_bytes;
      for (size_t i = 0; most && i < choice.inputs.size(); ++i) {
        const TensorCosts& costs =
            problem.tensor_of(static_cast<size_t>(problem.ops[op].inputs[i]));
        needed += dearest(costs.forward, choice.inputs[i].wants) +
                  dearest(costs.backward, choice.inputs[i].gives);
      }
      own = most ? std::max(own, needed) : std::min(own, needed);
    }
    bytes += own;
  }
  return bytes;
}

class Solver {
 public:
  Solver(const Problem& problem, const DynamicOptions& options)
      : problem_(problem), options_(options) {
    result_.lower_bound = compute_bound(problem);
  }

  DynamicResult run() {
    result_.least_bytes = bytes_bound(problem_, false);
    if (bytes_bound(problem_, true) <= problem_.memory_limit) {
      sweep({.width = options_.width, .states = options_.states});
    } else if (options_.width == 0) {
      sweep({.width = 0, .states = options_.states, .memory = true});
    } else if (result_.least_bytes <= problem_.memory_limit) {
      result_.least_bytes = std::numeric_limits<double>::infinity();
      priced();
    }
    if (options_.width > 0) {
      relax();
    }
    if (options_.width > 0 && !is_close(options_.gap)) {
      for (FoundPlan& found : crossed(problem_, result_.plans, kEvaluations)) {
        add(std::move(found));
      }
    }
    if (options_.width > 0 && options_.wide > options_.width) {
      certify();
    }
    std::ranges::stable_sort(result_.plans, {},
                             [](const FoundPlan& found) { return found.cost.seconds; });
    if (!result_.plans.empty()) {  // sums in another order may differ
      result_.lower_bound = std::min(result_.lower_bound, result_.plans[0].cost.seconds);
    }
    return std::move(result_);
  }

 private:
  // Whether the best plan of a sweep fits in the memory.
  bool sweep(const Limits& limits) {
    Sweep sweep(problem_, limits);
    if (!sweep.run()) {
      too_many_states_ = true;
      return false;
    }
    too_many_states_ |= sweep.most_states() > kMostStates;
    result_.expanded = std::max(result_.expanded, sweep.expanded());
    result_.largest_front = std::max(result_.largest_front, sweep.largest_front());
    const std::vector<Plan> plans = sweep.plans();
    bool fits = false;
    for (size_t p = 0; p < plans.size(); ++p) {
      const Evaluation cost = evaluate(problem_, plans[p]);
      result_.least_bytes = std::min(result_.least_bytes, cost.bytes);
      if (cost.bytes <= problem_.memory_limit) {
        fits |= p == 0;
        add({plans[p], cost});
      }
    }
    if (sweep.has_bound() && !plans.empty()) {
      // The price of what a plan leaves of the memory is no more than 0.
      const double free = limits.price > 0.0 ? limits.price * problem_.memory_limit : 0.0;
      const double bound = sweep.bound();
      result_.lower_bound =
          std::max(result_.lower_bound, bound - free - kRounding * std::abs(bound));
    }
    return fits;
  }

  // Means of computation and communication bound the time of every plan, whether it fits or not.
  // The best mean by cutting planes (Kelley, 1960): a plan's own mean, linear in the weights, is
  // more than the least; where the least of all known plans' means is greatest comes the next try.
  void relax() {
    if (result_.plans.empty()) {
      return;
    }
    const std::vector<int> quiet = quiet_choices(problem_);
    consider({quiet, needed_starts(problem_, quiet)});
    if (options_.bounds == 0) {
      return;
    }
    std::vector<Line> lines = {line_of(problem_, quiet)};
    for (const FoundPlan& found : result_.plans) {
      lines.push_back(line_of(problem_, found.plan.choices));
    }
    for (int i = 0; i < options_.bounds && !is_close(options_.gap); ++i) {
      const Weights weights = highest(lines);
      if (least(lines, weights) <= (1.0 + kNearBound) * result_.lower_bound) {
        break;
      }
      const Problem relaxed = without_overlap(problem_, weights);
      Sweep sweep(relaxed, {.width = 1, .additive = true});
      sweep.run();
      const double bound = sweep.bound();
      result_.lower_bound = std::max(result_.lower_bound, bound - kRounding * std::abs(bound));
      Plan plan = std::move(sweep.plans().at(0));
      plan.starts = needed_starts(problem_, plan.choices);
      lines.push_back(line_of(problem_, plan.choices));
      consider(plan);
    }
  }

  // A wide front without any guess is a bound of its own, where states are few enough.
  void certify() {
    for (const size_t width : {options_.wide, kWider * options_.wide}) {
      if (problem_.ops.size() <= kMostCertified && !too_many_states_ && !is_close(kCertified)) {
        sweep({.width = width, .states = kMostStates, .certain = true});
      }
    }
  }

  bool is_close(double gap) const {
    if (result_.plans.empty()) {
      return true;
    }
    const double best = std::ranges::min(result_.plans, {}, [](const FoundPlan& p) {
                          return p.cost.seconds;
                        }).cost.seconds;
    return best <= (1.0 + gap) * result_.lower_bound;
  }

  // Adds the plan if it fits.
  void consider(const Plan& plan) {
    const Evaluation cost = evaluate(problem_, plan);
    if (cost.bytes <= problem_.memory_limit) {
      add({plan, cost});
    }
  }

  void add(FoundPlan found) {
    const bool known = std::ranges::any_of(result_.plans, [&](const FoundPlan& other) {
      return other.plan.choices == found.plan.choices;
    });
    if (!known) {
      result_.plans.push_back(std::move(found));
    }
  }

  // Memory has a price, the lowest at which the best plan fits (Lagrangian relaxation: Everett,
  // Operations Research 11, 1963).
  void priced() {
    const Limits limits{.width = options_.width, .states = options_.states};
    if (sweep(limits)) {
      return;
    }
    double low = 0.0;
    double high = result_.lower_bound / problem_.memory_limit;
    int tried = 0;
    for (; tried < kMostPrices / 2 && !sweep_at(limits, high); ++tried) {
      low = high;
      high *= 4.0;
    }
    for (; tried < kMostPrices && low * kNearPrices < high && !result_.plans.empty(); ++tried) {
      const double middle = low > 0.0 ? std::sqrt(low * high) : high / 16.0;
      (sweep_at(limits, middle) ? high : low) = middle;
    }
  }
  bool sweep_at(Limits limits, double price) {
    limits.price = price;
    return sweep(limits);
  }

  const Problem& problem_;
  const DynamicOptions& options_;
  bool too_many_states_ = false;  // to certify
  DynamicResult result_;
};

}  // namespace

DynamicResult solve(const Problem& problem, const DynamicOptions& options) {
  check_problem(problem);
  return Solver(problem, options).run();
}

}  // namespace hidup
