#include "search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/units.h"
#include "program/memory.h"
#include "search/build_problem.h"
#include "search/by_axes.h"
#include "search/memory_limit.h"
#include "search/named.h"

namespace hidup {
namespace {

class Search {
 public:
  Search(const Graph& graph, const Mesh& mesh, const CostModel& costs, const SearchOptions& options)
      : graph_(graph),
        mesh_(mesh),
        costs_(costs),
        options_(options),
        microbatches_(microbatches_of(graph, options)) {}

  SearchOutcome run() {
    for (const int microbatches : microbatches_) {
      solve_for(microbatches);
    }
    simulate_plans();
    for (const NamedStrategy& named : named_strategies()) {
      Strategy strategy = named_strategy(named.name, graph_, mesh_);
      for (const int microbatches : microbatches_) {
        strategy.microbatches = microbatches;
        simulate_candidate({.strategy = strategy});
      }
    }
    if (std::ranges::none_of(outcome_.candidates, &Candidate::feasible)) {
      try_most_frugal();
    }
    rank_candidates();
    outcome_.strategy = outcome_.candidates[0].strategy;
    outcome_.seconds = outcome_.candidates[0].seconds;
    if (plans_.empty()) {  // by its own estimate of memory
      outcome_.objective_s = outcome_.seconds;
    }
    outcome_.lower_bound_s = bound_;
    outcome_.gap = bound_ > 0.0 ? outcome_.objective_s / bound_ - 1.0 : 0.0;
    return std::move(outcome_);
  }

 private:
  void solve_for(int microbatches) {
    const BuildOptions build = {.microbatches = microbatches,
                                .bucket_bytes = options_.lowering.bucket_bytes,
                                .memory_limit = options_.memory_limit > 0
                                                    ? static_cast<double>(options_.memory_limit)
                                                    : std::numeric_limits<double>::infinity(),
                                .hints = &options_.hints};
    if (axes_in_use(mesh_) > 1) {
      const AxesResult found = search_by_axes(graph_, mesh_, costs_, build, options_.effort);
      bound_ = std::min(bound_, found.lower_bound);
      for (size_t p = 0; p < std::min(found.found.size(), options_.simulated); ++p) {
        plans_.push_back(
            {.strategy = found.found[p].strategy, .objective_s = found.found[p].objective_s});
      }
      return;
    }
    const BuiltProblem built = build_problem(graph_, mesh_, costs_, build);
    const DynamicResult found = solve(built.problem, options_.effort);
    bound_ = std::min(bound_, found.lower_bound);
    const size_t count = std::min(found.plans.size(), options_.simulated);
    for (size_t p = 0; p < count; ++p) {
      plans_.push_back({.strategy = to_strategy(graph_, mesh_, built, found.plans[p].plan),
                        .objective_s = found.plans[p].cost.seconds});
    }
  }

  // The best for every number of microbatches, and the best of the others.
  void simulate_plans() {
    std::ranges::stable_sort(plans_, {}, &Candidate::objective_s);
    outcome_.objective_s = plans_.empty() ? 0.0 : plans_[0].objective_s;
    std::vector<int> tried;
    size_t others = 0;
    for (Candidate& plan : plans_) {
      const bool first = std::ranges::find(tried, plan.strategy.microbatches) == tried.end();
      if (first || ++others < options_.simulated) {
        tried.push_back(plan.strategy.microbatches);
        simulate_candidate(std::move(plan));
      }
    }
  }

  void simulate_candidate(Candidate candidate) {
    candidate.reason = broken_hint(graph_, options_.hints, candidate.strategy);
    candidate.feasible = candidate.reason.empty();
    if (candidate.feasible) {
      const Program program = lower(graph_, candidate.strategy, options_.lowering);
      candidate.memory_bytes = plan_memory(program, 0).bytes;  // the first rank's parts are largest
      const Prediction prediction = simulate(program, costs_);
      candidate.seconds = prediction.iteration_s;
      candidate.busy = prediction.busy;
      if (options_.memory_limit > 0 && candidate.memory_bytes > options_.memory_limit) {
        candidate.feasible = false;
        candidate.reason =
            fmt::format("needs {} of {} per rank", format_bytes(candidate.memory_bytes),
                        format_bytes(options_.memory_limit));
      }
    }
    outcome_.candidates.push_back(std::move(candidate));
  }

  // The search estimates memory: what it found too large may fit.
  void try_most_frugal() {
    FrugalStrategy frugal = most_frugal_strategy(graph_, mesh_, costs_, options_);
    if (frugal.bytes > options_.memory_limit) {
      fail_infeasible(graph_, mesh_, costs_, options_, frugal);
    }
    simulate_candidate({.strategy = std::move(frugal.strategy)});
  }

  void rank_candidates() {
    std::ranges::stable_sort(outcome_.candidates, {}, [](const Candidate& candidate) {
      return std::pair(!candidate.feasible, candidate.seconds);
    });
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
  std::vector<int> microbatches_;
  std::vector<Candidate> plans_;
  double bound_ = std::numeric_limits<double>::infinity();
  SearchOutcome outcome_;
};

}  // namespace

SearchOutcome search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                              const SearchOptions& options) {
  return Search(graph, mesh, costs, options).run();
}

}  // namespace hidup
