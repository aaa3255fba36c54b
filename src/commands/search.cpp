// hidup search: finds the fastest strategy for a model and a cluster, without ranks or devices.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>

#include "app/costs.h"
#include "app/explain.h"
#include "app/plan_report.h"
#include "app/run_search.h"
#include "commands/commands.h"
#include "core/deadline.h"
#include "core/new_file.h"
#include "core/results.h"
#include "core/units.h"
#include "device/device.h"
#include "io/output_path.h"

namespace hidup {
namespace {

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// Ratio of time to limit from which a search counts as late: it had to finish its plan.
constexpr double kLate = 1.2;

// Subtracts the time that the process has already used from its time limit.
SearchOptions search_options(const SearchCommandOptions& options, const PlanningInput& input,
                             const Deadline& end) {
  check_that_a_search_fits(input.deck);
  SearchOptions search = search_options(input.deck, input.graph, input.mesh, options.hints);
  search.baselines = options.baselines;
  if (options.level == "fast") {
    search.level = SearchLevel::fast;
  } else if (options.level == "thorough") {
    search.level = SearchLevel::thorough;
  }
  constexpr double kLeast = 1e-6;  // 0 would mean no limit
  search.time_limit_s = std::max(end.seconds_left(), kLeast);
  return search;
}

// Describes the quality of the plan for people. `is_late`: the search exceeded its time limit.
std::string describe_gap(const SearchOutcome& found, SearchLevel level, bool is_late) {
  constexpr double kWide = 0.1, kUseless = 1.0;
  std::string text;
  if (level == SearchLevel::fast) {
    text = "how near it is to the best plan was not asked (--level)";
  } else if (found.lower_bound_s <= 0.0 || found.gap > kUseless) {
    text = "how far it is from the best plan is not known";
  } else {
    text = fmt::format(
        "by its cost model at most {:.1f} % slower than the best plan of this search space",
        100.0 * found.gap);
    if (found.gap > kWide) {
      text +=
          "; the bound is loose, as on small balanced meshes, for deep graphs and where memory "
          "is short";
    }
  }
  if (is_late) {
    return text +
           "; --time-limit was not kept: on this machine it is too short for a model of this size";
  }
  return found.timed_out ? text + "; --time-limit left no time to try all plans" : text;
}

}  // namespace

int search(const SearchCommandOptions& options) {
  const double began = monotonic_seconds();
  const double limit_s = options.time_limit_s.value_or(
      options.level == "thorough" ? kThoroughSearchTime : kSearchTime);
  const Deadline end = Deadline::in(limit_s);
  const PlanningInput input =
      read_planning_input(options.deck, options.cluster, options.overrides, options.ranks);
  prepare_outputs({{"--strategy-out", options.strategy_out}},
                  files_read(options.deck, options.cluster, input.deck, "", options.hints),
                  options.overwrite);
  const Profile profile = costs_without_ranks(input.deck, input.mesh);
  const RankCosts all_costs = rank_costs(input.deck, input.mesh, profile);
  const SearchOptions how = search_options(options, input, end);
  SearchOutcome found = search_for(input.deck, input.graph, input.mesh, profile, how);
  const Strategy& strategy = found.step.strategy;
  if (!options.strategy_out.empty()) {
    write_text_file(options.strategy_out, print_strategy(input.graph, strategy), options.overwrite);
  }
  const TimeLimit limit(end);
  std::vector<Candidate> baselines;
  if (options.baselines) {
    baselines = best_of_each_name(found, input, all_costs);
  }
  RepeatedWork repeated{.useful_ranks = ranks_of(input.mesh)};
  found.timed_out |= !in_time([&] {
    TimeLimit::check();
    repeated = repeated_work(input.graph, strategy, all_costs, how.lowering, how.memory_limit);
  });
  const double seconds = monotonic_seconds() - began;
  if (options.json) {
    const bool known = found.lower_bound_s > 0.0 && how.level != SearchLevel::fast;
    Json json = {{"search_s", seconds}, {"peak_rss_bytes", peak_rss_bytes()}};
    json.update(plan_json(input, strategy, repeated));
    json.update({{"objective_s", found.objective_s},
                 {"lower_bound_s", known ? Json(found.lower_bound_s) : Json()},
                 {"gap", known ? Json(found.gap) : Json()},
                 {"timed_out", found.timed_out},
                 {"proposers", proposers_json(found.candidates)}});
    if (options.baselines) {
      json["baselines"] = candidates_json(baselines);
    }
    results::print("{}\n", json.dump(2));
    return 0;
  }
  print_plan(input, strategy, profile, describe(repeated, input.mesh, options.hints.empty()));
  results::print("search    {}, {}; {}\n", format_seconds(seconds), format_bytes(peak_rss_bytes()),
                 describe_gap(found, how.level, seconds > kLate * limit_s));
  print_candidates(baselines);
  if (!options.strategy_out.empty()) {
    results::print("file      {}\n", options.strategy_out);
  }
  return 0;
}

}  // namespace hidup
