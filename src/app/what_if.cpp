#include "app/what_if.h"

#include <algorithm>
#include <utility>

#include "app/memory_advice.h"
#include "core/check.h"
#include "cost/forecast.h"
#include "search/estimate/choose_routes.h"
#include "search/memory_limit.h"
#include "search/parallel.h"

namespace hidup {
namespace {

// The step that a search found, and its bound.
struct SearchedStep {
  double seconds;
  double objective_s;
  double lower_bound_s;
  Strategy strategy;
};

SearchedStep step_of(SearchOutcome found) {
  return {found.step.seconds(), found.objective_s, found.lower_bound_s,
          std::move(found.step.strategy)};
}

// `share`: of the time limit.
SearchOptions brief(SearchOptions options, const Mesh& mesh, double share) {
  options.baselines = false;
  options.time_limit_s *= share;
  if (axes_in_use(mesh) > 1) {
    options.level = SearchLevel::fast;  // bounds take longer than everything else there
  }
  return options;
}

// Returns the step after the change; none where `found` has a reason.
std::optional<SearchedStep> step_after(const PlannedRun& run, const Change& change, double share,
                                       WhatIf& found) {
  ChangedRun changed = change.variant(0);
  found.what = changed.what;
  found.reason = change.obstacle;
  if (!found.reason.empty()) {
    return std::nullopt;
  }
  const std::optional<ChangedCosts> costs = run.costs_of(changed.mesh, changed.twice_as_fast);
  if (!costs) {
    found.reason = "how long messages along it take is not known";
    return std::nullopt;
  }
  changed.options = brief(changed.options, changed.mesh, share);
  std::optional<SearchOutcome> outcome = search_changed(run, changed, *costs);
  if (!outcome) {
    found.reason = "no strategy fits in the memory";
    return std::nullopt;
  }
  return step_of(std::move(*outcome));
}

// Seconds of a step by that strategy after the change, with messages that go the ways which take
// least then; nothing where it does not fit.
std::optional<double> repriced(const PlannedRun& run, const Change& change, Strategy strategy) {
  const ChangedRun changed = change.variant(0);
  const std::optional<ChangedCosts> costs = run.costs_of(changed.mesh, changed.twice_as_fast);
  if (!costs) {
    return std::nullopt;
  }
  strategy.routes.clear();
  strategy.algorithms.clear();
  const LoweringOptions& lowering = changed.options.lowering;
  const Graph& graph = changed.graph ? *changed.graph : run.graph;
  const Forecast step =
      forecast(graph, with_routes(graph, std::move(strategy), lowering, costs->searched), lowering,
               costs->ranks, changed.options.memory_of_ranks);
  const Candidate candidate{
      .strategy = step.strategy, .memory_bytes = step.plan.bytes, .memory_rank = step.plan.rank};
  const bool fits = memory_obstacle(candidate, changed.options).empty();
  return fits ? std::optional(step.seconds()) : std::nullopt;
}

}  // namespace

WhatIfReport what_if(const PlannedRun& run) {
  const std::vector<Change> changes = single_changes(run);
  std::vector<std::optional<SearchedStep>> steps(changes.size());
  WhatIfReport report{.changes = std::vector<WhatIf>(changes.size())};
  SearchedStep now{};
  const size_t searches = changes.size() + 1;
  const size_t threads = run.options.threads;
  const double share =
      std::min(1.0, static_cast<double>(threads) / static_cast<double>(searches + threads));
  in_parallel(searches, threads, [&](size_t c) {
    if (c == 0) {
      const SearchOptions options = brief(run.options, run.mesh, share);
      now = step_of(
          search_or_advise({run.graph, run.mesh, options, run.costs, run.ranks, run.costs_of}));
    } else {
      steps[c - 1] = step_after(run, changes[c - 1], share, report.changes[c - 1]);
    }
  });
  report.now_s = now.seconds;
  for (size_t c = 0; c < changes.size(); ++c) {
    WhatIf& found = report.changes[c];
    found.kind = changes[c].kind;
    found.of = changes[c].of;
    found.feasible = steps[c].has_value();
    if (steps[c] && changes[c].reprices_the_best) {
      const std::optional<double> seconds = repriced(run, changes[c], now.strategy);
      steps[c]->seconds = std::min(steps[c]->seconds, seconds.value_or(steps[c]->seconds));
    }
    if (steps[c]) {
      found.seconds =
          changes[c].keeps_the_best ? std::min(steps[c]->seconds, now.seconds) : steps[c]->seconds;
      found.gain = 1.0 - found.seconds / now.seconds;
      if (steps[c]->lower_bound_s > 0.0) {
        found.at_most = std::max(1.0 - steps[c]->lower_bound_s / now.objective_s, found.gain);
      }
    }
  }
  return report;
}

}  // namespace hidup
