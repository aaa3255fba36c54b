// hidup search: the fastest strategy for a model and a cluster, without ranks or devices.
#include <fmt/core.h>
#include <sys/resource.h>

#include "app/costs.h"
#include "app/explain.h"
#include "app/plan_report.h"
#include "commands/commands.h"
#include "core/new_file.h"
#include "core/results.h"
#include "core/units.h"
#include "device/device.h"
#include "io/output_path.h"
#include "train/setup.h"

namespace hidup {
namespace {

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace

int search(const SearchCommandOptions& options) {
  const double began = monotonic_seconds();
  const PlanningInput input =
      read_planning_input(options.deck, options.cluster, options.overrides, options.ranks);
  check_searchable(input.deck);
  prepare_outputs({{"--strategy-out", options.strategy_out}},
                  files_read(options.deck, options.cluster, input.deck, "", options.hints),
                  options.overwrite);
  const Profile profile = costs_without_ranks(input.deck, input.mesh);
  const CostModel costs(profile);
  const RankCosts all_costs = rank_costs(input.deck, input.mesh, profile);
  SearchOutcome found =
      search_for(input.deck, input.graph, input.mesh, costs, options.hints, options.baselines);
  const double seconds = monotonic_seconds() - began;

  Strategy& strategy = found.strategy;
  const Candidate& best = found.candidates[0];
  strategy.predicted = {best.seconds, best.busy.compute_s, best.busy.comm_s,
                        best.busy.exposed_comm_s, best.memory_bytes};
  if (!options.strategy_out.empty() || !all_costs.all_alike()) {
    const Forecast step = forecast(input.graph, strategy, input.deck, all_costs);
    annotate(strategy, step.program, step.plan, step.prediction);
  }
  if (!options.strategy_out.empty()) {
    write_text_file(options.strategy_out, print_strategy(input.graph, strategy), options.overwrite);
  }
  std::vector<Candidate> baselines;
  if (options.baselines) {
    baselines = best_of_each_name(found, input, all_costs);
  }
  const RepeatedWork repeated =
      repeated_work(input.graph, strategy, costs, lowering_options(input.deck),
                    input.deck.cluster.device_memory.value_or(0));
  if (options.json) {
    Json json = {{"search_s", seconds}, {"peak_rss_bytes", peak_rss_bytes()}};
    json.update(plan_json(input, strategy, repeated));
    json.update({{"objective_s", found.objective_s},
                 {"lower_bound_s", found.lower_bound_s},
                 {"gap", found.gap}});
    if (options.baselines) {
      json["baselines"] = candidates_json(baselines);
    }
    results::print("{}\n", json.dump(2));
    return 0;
  }
  print_plan(input, strategy, profile, describe(repeated, input.mesh, options.hints.empty()));
  results::print("search    {}, {}; {}\n", format_seconds(seconds), format_bytes(peak_rss_bytes()),
                 found.lower_bound_s > 0.0
                     ? fmt::format("by its cost model at most {:.1f} % slower than the best plan",
                                   100.0 * found.gap)
                     : "no lower bound is known");
  print_candidates(baselines);
  if (!options.strategy_out.empty()) {
    results::print("file      {}\n", options.strategy_out);
  }
  return 0;
}

}  // namespace hidup
