#include "search/dp/dynamic.h"

#include <algorithm>
#include <cmath>

#include "search/dp/best_first.h"
#include "search/dp/improve.h"
#include "search/dp/relax.h"
#include "search/dp/sweep.h"

namespace hidup {
namespace {

// The comments below give the effects of half and twice the value on bert, bert-sgmoe and
// bert-switch, on one axis of 8 or 64 ranks, on two axes, and near the memory limit.

// The most sweeps with a memory multiplier. Half and twice find the same plans.
constexpr int kMostMultipliers = 40;
// The most of these that raise the multiplier, by a factor of four each, from one at which memory
// costs as much as everything else. At the last one, bytes are nearly all that counts.
constexpr int kMostRises = 8;
// The precision of the multiplier. With 1.1, plans were 0.3 % slower; 1.005 gained nothing.
constexpr double kMultiplierTolerance = 1.02;

// Relaxation ends if it can raise the bound by at most this part. 0.0005 and 0.01 give the same.
constexpr double kNearBound = 0.002;
// The most operations that crossover evaluates. Half and twice find the same plans.
constexpr size_t kEvaluations = 150000;

// Returns a lower bound for all plans: the least computation of all operations and microbatches.
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

// Returns an upper (`most`) or lower bound of the bytes of an operation.
double bytes_bound_of(const Problem& problem, size_t op, bool most) {
  double own = most ? 0.0 : std::numeric_limits<double>::infinity();
  for (const Choice& choice : problem.choices_of(op).choices) {
    double needed = choice.persistent_bytes + choice.saved_bytes;
    for (size_t i = 0; most && i < choice.inputs.size(); ++i) {
      const TensorCosts& costs = problem.tensor_of(static_cast<size_t>(problem.ops[op].inputs[i]));
      needed += costs.forward.costliest_to(choice.inputs[i].required).bytes +
                costs.backward.costliest_to(choice.inputs[i].gradient).bytes;
    }
    own = most ? std::max(own, needed) : std::min(own, needed);
  }
  return own;
}

// Returns an upper (`most`) or lower bound of the bytes of every plan.
double bytes_bound(const Problem& problem, bool most) {
  const std::vector<size_t> alike = first_alike(problem);
  std::vector<double> bytes(problem.ops.size());
  double sum = problem.base_bytes;
  for (size_t op = 0; op < bytes.size(); ++op) {
    bytes[op] = alike[op] == op ? bytes_bound_of(problem, op, most) : bytes[alike[op]];
    sum += bytes[op];
  }
  return sum;
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
      search_multiplier();
    }
    if (options_.width > 0) {
      relax();
    }
    if (options_.width > 0 && !is_close(options_.gap)) {
      for (const FoundPlan& found : crossover(problem_, result_.plans, kEvaluations)) {
        add_if_it_fits(problem_, found.plan, result_);
      }
    }
    put_in_order(result_);
    if (options_.fill && result_.memory_multiplier > 0.0 && !result_.plans.empty()) {
      add_if_it_fits(problem_, descended(problem_, result_.plans[0].plan, kEvaluations), result_);
      put_in_order(result_);
    }
    return std::move(result_);
  }

 private:
  // Returns true where the best plan of the sweep fits in memory.
  bool sweep(const SweepOptions& options) {
    Sweep sweep(problem_, options);
    if (!sweep.run()) {
      return false;
    }
    result_.expanded = std::max(result_.expanded, sweep.expanded());
    result_.largest_front = std::max(result_.largest_front, sweep.largest_front());
    const std::vector<Plan> plans = sweep.plans();
    bool fits = false;
    for (size_t p = 0; p < plans.size(); ++p) {
      const bool it_fits = add_if_it_fits(problem_, plans[p], result_);
      fits |= p == 0 && it_fits;
    }
    if (sweep.has_bound() && !plans.empty()) {
      raise_bound(problem_, options, sweep.bound(), result_);
    }
    return fits;
  }

  // Computes lower bounds by relaxation (relax.h). Cutting planes (Kelley, Journal of SIAM 8, 1960)
  // find the best weights: every plan gives an upper bound of the relaxed optimum that is linear in
  // the weights. The next weights are those at which the least of these bounds is greatest.
  void relax() {
    if (result_.plans.empty()) {
      return;
    }
    const std::vector<int> greedy = least_communication_choices(problem_);
    add_if_it_fits(problem_, {greedy, needed_starts(problem_, greedy)}, result_);
    if (options_.bounds == 0) {
      return;
    }
    std::vector<CuttingPlane> planes = {cutting_plane_of(problem_, greedy)};
    for (const FoundPlan& found : result_.plans) {
      planes.push_back(cutting_plane_of(problem_, found.plan.choices));
    }
    for (int i = 0; may_try(i, options_.bounds) && !is_close(options_.gap); ++i) {
      const Weights weights = highest_weights(planes);
      if (least_value(planes, weights) <= (1.0 + kNearBound) * result_.lower_bound) {
        break;
      }
      const Problem relaxed = without_overlap(problem_, weights);
      Sweep sweep(relaxed, {.width = 1, .additive = true, .work = options_.bound_work});
      if (!sweep.run()) {
        break;
      }
      raise_bound(problem_, {}, sweep.bound(), result_);
      Plan plan = std::move(sweep.plans().at(0));
      plan.starts = needed_starts(problem_, plan.choices);
      planes.push_back(cutting_plane_of(problem_, plan.choices));
      add_if_it_fits(problem_, plan, result_);
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

  // Relaxes the memory limit by a Lagrange multiplier (Everett, Operations Research 11, 1963), and
  // finds the least multiplier at which the best plan fits.
  void search_multiplier() {
    SweepOptions options{.width = options_.width, .states = options_.states};
    if (sweep(options)) {
      return;
    }
    options.deadline = options_.deadline;
    double low = 0.0;
    double& high = result_.memory_multiplier;
    high = result_.lower_bound / problem_.memory_limit;
    int tried = 0;
    for (; may_try(tried, kMostRises) && !sweep_with(options, high); ++tried) {
      low = high;
      high *= 4.0;
    }
    for (; may_try(tried, kMostMultipliers) && low * kMultiplierTolerance < high &&
           !result_.plans.empty();
         ++tried) {
      const double middle = low > 0.0 ? std::sqrt(low * high) : high / 16.0;
      (sweep_with(options, middle) ? high : low) = middle;
    }
  }
  bool may_try(int tried, int most) const {
    return tried < most && !options_.deadline.has_passed();
  }
  bool sweep_with(SweepOptions options, double memory_multiplier) {
    options.memory_multiplier = memory_multiplier;
    return sweep(options);
  }

  const Problem& problem_;
  const DynamicOptions& options_;
  DynamicResult result_;
};

DynamicResult best_first_result(const Problem& problem) {
  const BestFirstResult found = best_first(problem);
  DynamicResult result{.least_bytes = bytes_bound(problem, false), .expanded = found.expanded};
  if (found.plan) {
    result.plans.push_back(*found.plan);
    result.lower_bound = found.plan->cost.seconds;
  }
  return result;
}

}  // namespace

DynamicResult solve(const Problem& problem, const DynamicOptions& options) {
  check_problem(problem);
  return options.best_first ? best_first_result(problem) : Solver(problem, options).run();
}

}  // namespace hidup
