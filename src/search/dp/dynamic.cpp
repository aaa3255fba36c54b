#include "search/dp/dynamic.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "search/dp/best_first.h"
#include "search/dp/improve.h"
#include "search/dp/relax.h"
#include "search/dp/sweep.h"

namespace hidup {
namespace {

// The comments below give the effects of half and twice the value on bert, bert-sgmoe and
// bert-switch, on one axis of 8 or 64 ranks, on two axes, and near the memory limit.

// The most prices of memory to try.
constexpr int kMostPrices = 40;
// The most of these that rise, by a factor of four each, until a plan fits. At the last one, bytes
// are nearly all that counts.
constexpr int kMostRises = 6;
// The first price, at which memory costs this many times as much as everything else. With 1, steps
// of gpt-7b on v100-2x4-30gbps-flat take 1.3 % longer.
constexpr double kFirstPrice = 16.0;
// The search for the price ends where a sweep finds no plan that is cheaper by this part.
constexpr double kNearPrice = 1e-4;

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
    } else if (result_.least_bytes <= problem_.memory_limit || !options_.price_memory) {
      result_.least_bytes = std::numeric_limits<double>::infinity();
      if (!sweep({.width = options_.width, .states = options_.states}) && options_.price_memory) {
        search_price();
      }
    }
    return finish();
  }

  // Continues with the same limit of memory or a lower one.
  DynamicResult run(DynamicResult found) {
    result_ = std::move(found);
    std::vector<FoundPlan>& plans = result_.plans;
    const auto too_large = std::stable_partition(
        plans.begin(), plans.end(),
        [&](const FoundPlan& plan) { return plan.cost.bytes <= problem_.memory_limit; });
    std::move(too_large, plans.end(), std::back_inserter(result_.too_large));
    plans.erase(too_large, plans.end());
    if (!result_.too_large.empty()) {
      search_price();
    }
    return finish();
  }

 private:
  DynamicResult finish() {
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
    if (!plans.empty()) {
      best_ = evaluate(problem_, plans[0]);
      if (!fits) {
        result_.too_large.push_back({plans[0], best_});
      }
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

  // Relaxes the memory limit by a Lagrange multiplier (Everett, Operations Research 11, 1963), the
  // price of a byte. There is a price at which a plan that fits costs as much as a faster one that
  // does not. The fastest plan at that price replaces one of the two (Handler and Zang, Networks
  // 10, 1980).
  void search_price() {
    double& price = result_.memory_multiplier;
    int tried = 0;
    for (; result_.plans.empty() && may_try(tried, kMostRises); ++tried) {
      price = tried == 0 ? kFirstPrice * result_.lower_bound / problem_.memory_limit : 4.0 * price;
      sweep_at(price);
    }
    for (bool gains = !result_.plans.empty(); gains && may_try(tried, kMostPrices); ++tried) {
      price = price_of_equal_cost();
      const double known_s = priced_s(fastest_that_fits(), price);
      sweep_at(price);
      gains = priced_s(best_, price) < (1.0 - kNearPrice) * known_s;
    }
    // Sweeps keep few plans, and others at prices near the last one. Without these sweeps, steps of
    // gpt-7b on v100-8x8-10gbps take 0.9 % longer.
    for (const double factor : {0.5, 0.8, 1.25, 2.0}) {
      if (!result_.plans.empty() && may_try(tried, kMostPrices)) {
        sweep_at(factor * price);
      }
    }
  }

  void sweep_at(double price) {
    sweep({.width = options_.width,
           .states = options_.states,
           .memory_multiplier = price,
           .deadline = options_.deadline});
  }

  const Evaluation& fastest_that_fits() const {
    return std::ranges::min_element(result_.plans, {},
                                    [](const FoundPlan& plan) { return plan.cost.seconds; })
        ->cost;
  }

  // Returns the greatest price at which the fastest plan that fits costs as much as another.
  double price_of_equal_cost() const {
    const Evaluation& within = fastest_that_fits();
    double price = 0.0;
    for (const FoundPlan& plan : result_.too_large) {
      price =
          std::max(price, (within.seconds - plan.cost.seconds) / (plan.cost.bytes - within.bytes));
    }
    return price;
  }

  static double priced_s(const Evaluation& cost, double price) {
    return cost.seconds + price * cost.bytes;
  }

  bool may_try(int tried, int most) const {
    return tried < most && !options_.deadline.has_passed();
  }

  const Problem& problem_;
  const DynamicOptions& options_;
  DynamicResult result_;
  Evaluation best_;  // of the last sweep's best plan
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

void price_memory(const Problem& problem, const DynamicOptions& options, DynamicResult& found) {
  check_problem(problem);
  found = Solver(problem, options).run(std::move(found));
}

}  // namespace hidup
