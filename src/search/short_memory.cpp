// Solutions where memory is short: groups of microbatches first, then choices that save memory.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "search/dp/repeats.h"
#include "search/dp/sweep.h"
#include "search/estimate/estimate.h"
#include "search/memory_limit.h"
#include "search/parallel.h"
#include "search/solutions.h"

namespace hidup {
namespace {

// Returns the bytes that do not depend on the sequences of a pass.
double persistent_bytes(const Problem& problem, const Plan& plan) {
  double bytes = problem.base_bytes;
  for (size_t op = 0; op < plan.choices.size(); ++op) {
    bytes += problem.choices_of(op).choices[static_cast<size_t>(plan.choices[op])].persistent_bytes;
  }
  return bytes;
}

// Returns the solution with as many microbatches and groups as the other; null without one.
Solution* same_numbers(std::vector<Solution>& solutions, const Solution& other) {
  const auto same = std::ranges::find_if(solutions, [&](const Solution& solution) {
    return solution.microbatches == other.microbatches && solution.accumulate == other.accumulate;
  });
  return same == solutions.end() ? nullptr : &*same;
}

// Returns true where the fastest plan does not fit in memory, or no such plan is known.
bool is_short(const Solution& solution) {
  return !solution.built || !solution.found.too_large.empty();
}

// Returns true where the solution's fastest plan for any memory beats all plans that fit: further
// choices may make it fit.
bool may_beat(const Solution& solution, const std::vector<Solution>& all) {
  const double fitting_s = std::ranges::min_element(all, {}, &Solution::fitting_s)->fitting_s;
  return is_short(solution) && (!solution.built || solution.free_s < fitting_s);
}

}  // namespace

bool ProblemSolver::memory_is_short(const std::vector<Solution>& solutions) const {
  return options_.memory_limit > 0 && std::ranges::none_of(solutions, [](const Solution& solution) {
           const bool fits = !solution.found.plans.empty() || !solution.by_axes.empty();
           return fits && solution.found.too_large.empty();
         });
}

std::optional<int> ProblemSolver::fewest_groups(const Solution& solution) const {
  constexpr double kMargin = 1.05;  // for the error of the estimate
  if (solution.found.too_large.empty()) {
    return std::nullopt;
  }
  const FoundPlan& fastest = solution.found.too_large[0];
  const double kept = persistent_bytes(solution.built->problem, fastest.plan);
  return hidup::fewest_groups(graph_, options_, solution.microbatches, [&](int groups) {
    return kMargin * (kept + (fastest.cost.bytes - kept) / groups);
  });
}

void ProblemSolver::add_grouped(std::vector<Solution> grouped,
                                std::vector<Solution>& solutions) const {
  std::erase_if(grouped, [&](const Solution& solution) {
    return same_numbers(solutions, solution) != nullptr;
  });
  build(grouped);
  in_parallel(grouped.size(), options_.threads, [&](size_t s) { solve(grouped[s], false); });
  add_by_axes(grouped);
  in_parallel(grouped.size(), options_.threads,
              [&](size_t s) { in_time([&] { correct_estimate(grouped[s]); }); });
  simulate(grouped);
  std::ranges::move(grouped, std::back_inserter(solutions));
}

double ProblemSolver::simulated_s(const Solution& solution, const Plan& plan) const {
  const auto reduced =
      reduced_graphs_of(graph_, signatures_of(solution.built->problem), plan.choices);
  StrategyParts parts =
      parts_of(graph_, reduced, to_strategy(graph_, mesh_, *solution.built, plan));
  return simulated(parts, *reshards_, RankCosts(costs_), options_.lowering).iteration_s;
}

void ProblemSolver::simulate(std::vector<Solution>& solutions) const {
  in_parallel(solutions.size(), options_.threads, [&](size_t s) {
    Solution& solution = solutions[s];
    const DynamicResult& found = solution.found;
    in_time([&] {
      if (!found.too_large.empty()) {
        solution.free_s = simulated_s(solution, found.too_large[0].plan);
      }
      if (solution.built && !found.plans.empty()) {
        solution.fitting_s = simulated_s(solution, found.plans[0].plan);
      }
    });
  });
}

void ProblemSolver::add_choices_of_memory(std::vector<Solution>& solutions) const {
  if (!memory_is_short(solutions) || deadline_.has_passed()) {
    return;
  }
  const auto may_gain = [&] {
    return std::ranges::any_of(
        solutions, [&](const Solution& solution) { return may_beat(solution, solutions); });
  };
  simulate(solutions);
  std::vector<Solution> fewest;
  for (const Solution& solution : solutions) {
    if (const std::optional<int> groups = fewest_groups(solution)) {
      fewest.push_back({.microbatches = solution.microbatches, .accumulate = *groups});
    }
  }
  add_grouped(std::move(fewest), solutions);
  if (may_gain()) {
    std::vector<Solution> all;
    for (const int microbatches : microbatches_of(graph_, options_)) {
      for (const int accumulate : groups_of(graph_, options_, microbatches)) {
        all.push_back({.microbatches = microbatches, .accumulate = accumulate});
      }
    }
    add_grouped(std::move(all), solutions);
  }
  if (may_gain()) {
    add_choices(solutions);
  }
}

void ProblemSolver::add_choices(std::vector<Solution>& solutions) const {
  std::vector<Solution> with_choices;
  for (const Solution& before : solutions) {
    if (is_short(before)) {
      with_choices.push_back({.microbatches = before.microbatches,
                              .accumulate = before.accumulate,
                              .memory_choices = true});
    }
  }
  build(with_choices);
  in_parallel(with_choices.size(), options_.threads,
              [&](size_t s) { solve(with_choices[s], true); });
  add_by_axes(with_choices);
  for (Solution& solution : with_choices) {
    add_plans_of(*same_numbers(solutions, solution), solution);
  }
  in_parallel(with_choices.size(), options_.threads,
              [&](size_t s) { in_time([&] { correct_estimate(with_choices[s]); }); });
  for (Solution& solution : with_choices) {
    if (solution.built || !solution.by_axes.empty()) {  // the earlier one may be the only one
      *same_numbers(solutions, solution) = std::move(solution);
    }
  }
}

void ProblemSolver::correct_estimate(Solution& solution) const {
  constexpr int kRounds = 3;
  constexpr double kMargin = 0.99;
  if (!solution.built) {
    return;
  }
  Problem& problem = solution.built->problem;
  const double limit = problem.memory_limit;
  const std::vector<uint64_t> signatures = signatures_of(problem);
  DynamicResult found = solution.found;
  DynamicOptions effort = joint_effort();
  effort.fill = false;
  for (int round = 0; round < kRounds && !found.plans.empty() && !deadline_.has_passed(); ++round) {
    const FoundPlan& best = found.plans[0];
    const auto reduced = reduced_graphs_of(graph_, signatures, best.plan.choices);
    const Strategy strategy = to_strategy(graph_, mesh_, *solution.built, best.plan);
    const auto planned =
        static_cast<double>(planned_bytes(parts_of(graph_, reduced, strategy), options_.lowering));
    if (planned <= limit) {
      break;
    }
    problem.memory_limit =
        std::min(kMargin * limit * best.cost.bytes / planned, kMargin * problem.memory_limit);
    price_memory(problem, effort, found);
    for (const FoundPlan& plan : found.plans) {
      add_if_it_fits(problem, plan.plan, solution.found);
    }
    name_finder(solution.found.plans, "joint problem");
  }
  if (!found.plans.empty()) {  // the others only seem to fit
    std::erase_if(solution.found.plans,
                  [&](const FoundPlan& plan) { return plan.cost.bytes > problem.memory_limit; });
  }
  problem.memory_limit = limit;
}

void ProblemSolver::add_plans_of(const Solution& before, Solution& solution) const {
  for (size_t p = 0; before.built && p < before.found.plans.size(); ++p) {
    const FoundPlan& found = before.found.plans[p];
    add_strategy(to_strategy(graph_, mesh_, *before.built, found.plan), found.by, solution);
  }
  put_in_order(solution.found);
}

std::vector<std::vector<Solution>> solve_for_more_memory(
    const Graph& graph, const Mesh& mesh, const std::shared_ptr<const ReshardCosts>& reshards,
    const SearchOptions& options, const Deadline& deadline) {
  const RankLimits& limits = options.memory_of_ranks;
  const auto least = static_cast<double>(options.memory_limit);
  const double mean =
      std::accumulate(limits.begin(), limits.end(), 0.0) / static_cast<double>(limits.size());
  std::vector<std::vector<Solution>> all;
  for (const double limit : {1.25 * least, 1.6 * least, 2.0 * least, mean}) {
    if (limit > mean) {
      continue;
    }
    SearchOptions more = options;
    more.memory_limit = std::llround(limit);
    const ProblemSolver solver(graph, mesh, reshards, more, deadline);
    std::vector<Solution>& solutions = all.emplace_back(solver.build());
    solver.solve(solutions);
    solver.add_choices_of_memory(solutions);
  }
  return all;
}

}  // namespace hidup
