// Proposes the plans of the problems, and plans like the fastest strategy so far.
#include <algorithm>
#include <utility>

#include "search/dp/improve.h"
#include "search/dp/repeats.h"
#include "search/proposal.h"
#include "search/storage_variations.h"

namespace hidup {
namespace {

Proposal proposal_of(const SearchState& state, const Solution& solution, const FoundPlan& found) {
  const std::vector<uint64_t> signatures =
      solution.memory_choices ? signatures_of(solution.built->problem) : state.signatures;
  const auto graphs = std::make_shared<const std::vector<ReducedGraph>>(
      reduced_graphs_of(state.graph, signatures, found.plan.choices));
  const auto make = [&state, &solution, plan = found.plan] {
    return to_strategy(state.graph, state.mesh, *solution.built, plan);
  };
  return {.by = found.by,
          .make = make,
          .parts = parts_of(state.graph, *graphs, make()),
          .graphs = graphs,
          .objective_s = found.cost.seconds};
}

Proposal proposal_of(const SearchState& state, const FoundStrategy& found) {
  return {.by = found.by,
          .make = [strategy = found.strategy] { return strategy; },
          .parts = parts_of(state.graph, {}, found.strategy),
          .objective_s = found.objective_s};
}

// A plan; or a strategy where the problem has too many choices to be built.
struct Found {
  double seconds;
  bool best;  // the best for its numbers of microbatches and groups
  std::function<Proposal()> proposal;
};

std::vector<Found> all_found(const SearchState& state, const std::vector<Solution>& solutions) {
  std::vector<Found> all;
  for (const Solution& solution : solutions) {
    const auto add = [&](const FoundPlan& plan, bool best) {
      all.push_back({plan.cost.seconds, best, [&] { return proposal_of(state, solution, plan); }});
    };
    const size_t most = state.options.simulated;
    for (size_t p = 0; p < std::min(solution.found.plans.size(), most); ++p) {
      add(solution.found.plans[p], p == 0);
    }
    for (const FoundPlan& plan : solution.before_proof) {  // the simulation may prefer it
      add(plan, true);
    }
    for (size_t s = 0; s < std::min(solution.by_axes.size(), most); ++s) {
      const FoundStrategy& strategy = solution.by_axes[s];
      all.push_back({strategy.objective_s, s == 0, [&] { return proposal_of(state, strategy); }});
    }
  }
  std::ranges::stable_sort(all, {}, &Found::seconds);
  return all;
}

// The fastest strategy so far as a plan of its problem.
struct FastestPlan {
  const Solution* solution;
  Plan plan;
};

std::optional<FastestPlan> fastest_plan(const SearchState& state) {
  if (state.fastest.empty()) {
    return std::nullopt;
  }
  const Strategy strategy = state.fastest[0].proposal->make();
  const auto solution = std::ranges::find_if(state.solutions, [&](const Solution& each) {
    return each.microbatches == strategy.microbatches && each.accumulate == strategy.accumulate;
  });
  if (solution == state.solutions.end() || !solution->built) {
    return std::nullopt;
  }
  const Problem& problem = solution->built->problem;
  const auto choices = choices_of(state.graph, problem, *solution->built, strategy);
  return choices ? std::optional(FastestPlan{&*solution, {*choices, {}}}) : std::nullopt;
}

std::vector<Proposal> proposals_of(const SearchState& state, const Solution& solution,
                                   std::vector<FoundPlan> plans, const char* by) {
  std::vector<Proposal> proposals;
  for (FoundPlan& plan : plans) {
    plan.by = by;
    proposals.push_back(proposal_of(state, solution, plan));
  }
  return proposals;
}

}  // namespace

std::vector<Proposal> plans_of(const SearchState& state, const std::vector<Solution>& solutions) {
  std::vector<Proposal> proposals;
  size_t others = 0;
  for (const Found& each : all_found(state, solutions)) {
    if (each.best || ++others < state.options.simulated) {
      proposals.push_back(each.proposal());
    }
  }
  return proposals;
}

// Proposes the best plan for every number of microbatches, and the best other plans.
std::vector<Proposal> propose_plans(const SearchState& state) {
  return plans_of(state, state.solutions);
}

// Proposes plans whose objectives nearly equal the fastest; the simulation tells them apart.
std::vector<Proposal> propose_variations(const SearchState& state) {
  const bool simulates_whole =
      !state.fastest.empty() && state.fastest[0].proposal->parts.parts[0].graph == &state.graph;
  if (state.options.variations == 0 || !simulates_whole) {  // too many operations to simulate more
    return {};
  }
  const std::optional<FastestPlan> best = fastest_plan(state);
  if (!best) {
    return {};
  }
  const Problem& problem = best->solution->built->problem;
  return proposals_of(state, *best->solution,
                      variations(problem, best->plan, state.options.variations), "variations");
}

std::vector<Proposal> propose_storages(const SearchState& state) {
  if (state.options.variations == 0 || axes_in_use(state.mesh) <= 1) {  // few choices
    return {};
  }
  const std::optional<FastestPlan> best = fastest_plan(state);
  if (!best) {
    return {};
  }
  return proposals_of(state, *best->solution,
                      storage_variations(*best->solution->built, best->plan), "storages");
}

// Proposes the fastest strategies with all gradients in one message after the backward pass. It
// pays where latencies outweigh the time that buckets hide, which the objective does not model.
std::vector<Proposal> propose_deferred(const SearchState& state) {
  constexpr size_t kDeferred = 2;
  std::vector<Proposal> proposals;
  if (state.options.hints.defer_gradients) {
    return proposals;
  }
  for (const Simulated& fast :
       std::span(state.fastest).first(std::min(state.fastest.size(), kDeferred))) {
    proposals.push_back(
        with_change(*fast.proposal, "deferred gradients", state.graph,
                    [](const Graph&, Strategy& strategy) { strategy.defer_gradients = true; }));
  }
  return proposals;
}

}  // namespace hidup
