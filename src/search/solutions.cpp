#include "search/solutions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "search/axes/near_search.h"
#include "search/dp/repeats.h"
#include "search/dp/sweep.h"
#include "search/estimate/estimate.h"
#include "search/memory_limit.h"
#include "search/parallel.h"
#include "search/problem/op_strategies.h"

namespace hidup {
namespace {

// The search is joint over all axes where no operation has more strategies than this: on two axes.
constexpr size_t kMostJointly = 128;
// The number of states of joint searches. 300 take twice as long for plans 0.0 to 0.1 % faster.
constexpr size_t kJointStates = 100;
// Searches start on the shallow graph where the whole graph has this many times the operations (40
// layers or more). With 5, plans of 24 layers are up to 0.9 % slower.
constexpr size_t kDeep = 10;
// The local search skips numbers of microbatches whose best strategy takes longer than the overall
// best by more than this factor.
constexpr double kMayWin = 1.1;
// Returns the effort of the proof at a search level. A proof on several axes takes much longer.
CertifyOptions proof_of(SearchLevel level, bool one_axis) {
  switch (level) {
    case SearchLevel::fast:
      return {.width = 0};
    case SearchLevel::thorough:
      return {.gap = 0.002, .work = 6'000'000'000};  // about a minute
    case SearchLevel::standard:
      break;
  }
  return {.gap = one_axis ? 0.02 : 0.05};
}

// Returns the approximate part of the whole graph's memory that the shallow graph needs.
double part_of_bytes(const Graph& shallow, const Graph& whole) {
  const auto bytes = [](const Graph& graph) {
    double sum = 0.0;
    for (const Tensor& tensor : graph.tensors()) {
      sum += static_cast<double>(elements(tensor.shape) * size_of(tensor.dtype));
    }
    return sum;
  };
  return bytes(shallow) / bytes(whole);
}

}  // namespace

ProblemSolver::ProblemSolver(const Graph& graph, const Mesh& mesh,
                             std::shared_ptr<const ReshardCosts> reshards,
                             const SearchOptions& options, const Deadline& deadline,
                             std::vector<ShareNumber> shares)
    : graph_(graph),
      mesh_(mesh),
      costs_(reshards->model()),
      options_(options),
      deadline_(deadline),
      shares_(std::move(shares)),
      one_axis_(axes_in_use(mesh) <= 1),
      reshards_(std::move(reshards)) {
  if (!one_axis_ && options.hints.empty()) {
    std::vector<ReducedGraph> reduced = reduced_graphs_of(graph, signatures_of(graph));
    if (!reduced.empty() && kDeep * reduced[0].graph.ops().size() <= graph.ops().size()) {
      shallow_ = std::move(reduced[0]);
    }
  }
}

BuildOptions ProblemSolver::build_options(const Solution& solution) const {
  return {.microbatches = solution.microbatches,
          .accumulate = solution.accumulate,
          .bucket_bytes = options_.lowering.bucket_bytes,
          .gradients_as = options_.lowering.gradients_as,
          .memory_limit = options_.memory_limit > 0 ? static_cast<double>(options_.memory_limit)
                                                    : std::numeric_limits<double>::infinity(),
          .memory_choices = solution.memory_choices,
          .hints = &options_.hints,
          .shares = shares_,
          .reshards = reshards_};
}

DynamicOptions ProblemSolver::effort() const {
  DynamicOptions effort = options_.effort;
  effort.deadline = deadline_;
  return effort;
}

DynamicOptions ProblemSolver::joint_effort() const {
  DynamicOptions effort = this->effort();
  if (!one_axis_) {
    effort.states = kJointStates;
    effort.bounds = 0;  // the relaxation has too many states; certify() has fewer
  }
  return effort;
}

void ProblemSolver::build(Solution& solution) const {
  const BuildOptions how = build_options(solution);
  if (one_axis_) {
    solution.built = build_problem(graph_, mesh_, costs_, how);
  } else if (most_strategies(graph_, mesh_, how.hints) <= kMostJointly) {
    solution.built = try_build_problem(graph_, mesh_, costs_, how);
  }
}

std::vector<Solution> ProblemSolver::build() const {
  std::vector<Solution> solutions;
  for (const int count : microbatches_of(graph_, options_)) {
    solutions.push_back(
        {.microbatches = count, .accumulate = groups_of(graph_, options_, count).front()});
  }
  build(solutions);
  return solutions;
}

void ProblemSolver::build(std::vector<Solution>& solutions) const {
  in_parallel(solutions.size(), options_.threads,
              [&](size_t s) { in_time([&] { build(solutions[s]); }); });
  if (!one_axis_) {
    in_parallel(solutions.size(), options_.threads,
                [&](size_t s) { in_time([&] { search_axes(solutions[s]); }); });
  }
}

// The joint problem gives the time of strategies with equal blocks. Where memory is short, every
// block needs its own choices.
bool ProblemSolver::is_shallow(const Solution& solution) const {
  return shallow_ && solution.built && !solution.memory_choices;
}

void ProblemSolver::search_axes(Solution& solution) const {
  const BuildOptions how = build_options(solution);
  DynamicOptions effort = this->effort();
  // The joint search prices memory; without it, or with its choices, this search must, too.
  effort.price_memory = !solution.built || solution.memory_choices;
  AxesResult found;
  if (is_shallow(solution)) {
    BuildOptions part = how;
    part.memory_limit *= part_of_bytes(shallow_->graph, graph_);
    found = search_by_axes(shallow_->graph, mesh_, costs_, part, effort);
    for (FoundStrategy& each : found.found) {
      each.strategy = extended_to(graph_, *shallow_, each.strategy);
    }
    for (size_t op = 0; op < graph_.ops().size(); ++op) {  // one stand-in's bound in all its places
      const auto stand_in = static_cast<size_t>(shallow_->stand_ins[op]);
      const bool is_it = shallow_->ops[stand_in] == static_cast<OpId>(op);
      found.lower_bound += is_it ? 0.0 : found.least_s[stand_in];
    }
  }
  if (found.found.empty()) {
    found = search_by_axes(graph_, mesh_, costs_, how, effort);
  }
  solution.by_axes = std::move(found.found);
  solution.found.lower_bound = found.lower_bound;
}

std::vector<FoundStrategy> ProblemSolver::near(const Solution& solution,
                                               FoundStrategy start) const {
  const BuildOptions how = build_options(solution);
  if (!is_shallow(solution)) {
    return search_near(graph_, mesh_, costs_, how, joint_effort(), std::move(start));
  }
  BuildOptions part = how;
  part.memory_limit *= part_of_bytes(shallow_->graph, graph_);
  start = {restricted_to(start.strategy, *shallow_), std::numeric_limits<double>::infinity()};
  std::vector<FoundStrategy> found =
      search_near(shallow_->graph, mesh_, costs_, part, joint_effort(), std::move(start));
  for (FoundStrategy& each : found) {
    each.strategy = extended_to(graph_, *shallow_, each.strategy);
  }
  return found;
}

void ProblemSolver::solve(Solution& solution, bool price_memory) const {
  if (!solution.built) {
    return;
  }
  DynamicOptions effort = joint_effort();
  effort.price_memory = price_memory;
  effort.fill = !solution.memory_choices;  // what correct_estimate() corrects needs room
  const double by_axes = solution.found.lower_bound;
  solution.found = hidup::solve(solution.built->problem, effort);
  solution.found.lower_bound = std::max(solution.found.lower_bound, by_axes);
  name_finder(solution.found.plans, "joint problem");
}

void ProblemSolver::solve(std::vector<Solution>& solutions) const {
  in_parallel(solutions.size(), options_.threads, [&](size_t s) { solve(solutions[s], false); });
  if (!memory_is_short(solutions)) {
    in_parallel(solutions.size(), options_.threads, [&](size_t s) {
      Solution& solution = solutions[s];
      if (solution.built && !solution.found.too_large.empty()) {
        price_memory(solution.built->problem, joint_effort(), solution.found);
        name_finder(solution.found.plans, "joint problem");
      }
    });
  }
  add_by_axes(solutions);
  if (!one_axis_) {
    search_near_best(solutions);
  }
}

void ProblemSolver::add_by_axes(std::vector<Solution>& solutions) const {
  for (Solution& solution : solutions) {
    add(std::exchange(solution.by_axes, {}), solution);
  }
}

std::optional<FoundStrategy> ProblemSolver::best_of(const Solution& solution) const {
  if (!solution.found.plans.empty()) {
    const FoundPlan& best = solution.found.plans[0];
    return FoundStrategy{to_strategy(graph_, mesh_, *solution.built, best.plan), best.cost.seconds};
  }
  return solution.by_axes.empty() ? std::nullopt : std::optional(solution.by_axes[0]);
}

void ProblemSolver::search_near_best(std::vector<Solution>& solutions) const {
  std::vector<std::optional<FoundStrategy>> starts;
  double best = std::numeric_limits<double>::infinity();
  for (const Solution& solution : solutions) {
    starts.push_back(best_of(solution));
    best = std::min(best, starts.back() ? starts.back()->objective_s : best);
  }
  in_parallel(solutions.size(), options_.threads, [&](size_t s) {
    // With a price on bytes, every search takes many sweeps.
    const bool free = solutions[s].found.too_large.empty();
    if (starts[s] && free && starts[s]->objective_s <= kMayWin * best) {
      in_time([&] { add(near(solutions[s], *std::move(starts[s])), solutions[s]); });
    }
  });
}

void ProblemSolver::add_strategy(const Strategy& strategy, const char* by,
                                 Solution& solution) const {
  if (!solution.built) {
    return;
  }
  const Problem& problem = solution.built->problem;
  if (const auto choices = choices_of(graph_, problem, *solution.built, strategy)) {
    add_if_it_fits(problem, {*choices, needed_starts(problem, *choices)}, solution.found);
    name_finder(solution.found.plans, by);
  }
}

// Adds the strategies as plans of the joint problem where there is one.
void ProblemSolver::add(const std::vector<FoundStrategy>& found, Solution& solution) const {
  for (const FoundStrategy& each : found) {
    if (solution.built) {
      add_strategy(each.strategy, each.by, solution);
    } else {
      solution.by_axes.push_back(each);
    }
  }
  std::ranges::stable_sort(solution.by_axes, {}, &FoundStrategy::objective_s);
  put_in_order(solution.found);
}

void ProblemSolver::certify(std::vector<Solution>& solutions, const Deadline& deadline) const {
  DynamicOptions effort = joint_effort();
  effort.deadline = deadline;
  double best = std::numeric_limits<double>::infinity();
  for (const Solution& solution : solutions) {
    if (!solution.found.plans.empty()) {
      best = std::min(best, solution.found.plans[0].cost.seconds);
    }
  }
  CertifyOptions proof = proof_of(options_.level, one_axis_);
  proof.work /= std::max<size_t>(1, solutions.size() / options_.microbatches.size());
  in_parallel(solutions.size(), options_.threads, [&](size_t s) {
    Solution& solution = solutions[s];
    if (!solution.built || std::isinf(best)) {
      return;
    }
    std::vector<FoundPlan> before = solution.found.plans;
    before.resize(std::min(before.size(), options_.simulated));
    hidup::certify(solution.built->problem, effort, proof, best, solution.found);
    name_finder(solution.found.plans, "proof");
    if (!before.empty() && solution.found.plans[0].plan.choices != before[0].plan.choices) {
      solution.before_proof = std::move(before);
    }
  });
}

void name_finder(std::vector<FoundPlan>& plans, const char* by) {
  for (FoundPlan& plan : plans) {
    plan.by = *plan.by == '\0' ? by : plan.by;
  }
}

bool has_plans(const std::vector<Solution>& solutions) {
  return std::ranges::any_of(solutions, [](const Solution& solution) {
    return !solution.found.plans.empty() || !solution.by_axes.empty();
  });
}

double least_objective(const std::vector<Solution>& solutions) {
  double least = std::numeric_limits<double>::infinity();
  for (const Solution& solution : solutions) {
    if (!solution.found.plans.empty()) {
      least = std::min(least, solution.found.plans[0].cost.seconds);
    }
    if (!solution.by_axes.empty()) {
      least = std::min(least, solution.by_axes[0].objective_s);
    }
  }
  return has_plans(solutions) ? least : 0.0;
}

double lower_bound(const std::vector<Solution>& solutions) {
  const auto bound = std::ranges::min_element(
      solutions, {}, [](const Solution& solution) { return solution.found.lower_bound; });
  return bound == solutions.end() ? 0.0 : bound->found.lower_bound;
}

}  // namespace hidup
