#include "search/search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/units.h"
#include "graph/batch.h"
#include "program/memory.h"
#include "search/build_problem.h"
#include "search/named.h"

namespace hidup {
namespace {

class Search {
 public:
  Search(const Graph& graph, const Mesh& mesh, const CostModel& costs, const SearchOptions& options)
      : graph_(graph), mesh_(mesh), costs_(costs), options_(options) {
    const int64_t batch = batch_obstacle(graph).empty() ? batch_of(graph) : 1;
    for (const int count : options.microbatches) {
      if (count == 1 || count <= batch) {
        microbatches_.push_back(count);
      }
    }
    check(!microbatches_.empty(), "a search without microbatches");
  }

  SearchOutcome run() {
    for (const int microbatches : microbatches_) {
      solve_for(microbatches);
    }
    simulate_plans();
    for (const NamedStrategy& named : named_strategies()) {
      for (const int microbatches : microbatches_) {
        Strategy strategy = named_strategy(named.name, graph_, mesh_);
        strategy.microbatches = microbatches;
        simulate_candidate({.strategy = std::move(strategy)});
      }
    }
    if (outcome_.candidates.empty()) {
      fail(ExitCode::usage, "no strategy fits in {} per rank: the most frugal needs {}",
           format_bytes(options_.memory_limit), format_bytes(least_bytes_));
    }
    std::ranges::stable_sort(outcome_.candidates, {}, &Candidate::seconds);
    outcome_.strategy = outcome_.candidates[0].strategy;
    outcome_.seconds = outcome_.candidates[0].seconds;
    outcome_.lower_bound_s = bound_;
    outcome_.gap = bound_ > 0.0 ? outcome_.objective_s / bound_ - 1.0 : 0.0;
    return std::move(outcome_);
  }

 private:
  void solve_for(int microbatches) {
    const BuiltProblem built = build_problem(
        graph_, mesh_, costs_,
        {.microbatches = microbatches,
         .bucket_bytes = options_.lowering.bucket_bytes,
         .memory_limit = options_.memory_limit > 0 ? static_cast<double>(options_.memory_limit)
                                                   : std::numeric_limits<double>::infinity()});
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
    const Program program = lower(graph_, candidate.strategy, options_.lowering);
    candidate.memory_bytes = plan_memory(program, 0).bytes;  // the first rank has the largest parts
    least_bytes_ = std::min(least_bytes_, candidate.memory_bytes);
    if (options_.memory_limit > 0 && candidate.memory_bytes > options_.memory_limit) {
      return;
    }
    const Prediction prediction = simulate(program, costs_);
    candidate.seconds = prediction.iteration_s;
    candidate.busy = prediction.busy;
    outcome_.candidates.push_back(std::move(candidate));
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
  std::vector<int> microbatches_;
  std::vector<Candidate> plans_;
  double bound_ = std::numeric_limits<double>::infinity();
  int64_t least_bytes_ = std::numeric_limits<int64_t>::max();
  SearchOutcome outcome_;
};

}  // namespace

SearchOutcome search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                              const SearchOptions& options) {
  return Search(graph, mesh, costs, options).run();
}

}  // namespace hidup
