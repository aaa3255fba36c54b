// bench_ordering MODEL CLUSTER...: compares the order of strategies by the search's objective with
// that by the simulation, and the estimate of memory with the plan. For every cluster it takes all
// plans and named strategies of one search, with every number of microbatches that the search
// tries. It prints the share of pairs in the same order, among those that differ by more than 1 %
// in simulated time, and the median and the largest deviation of the estimated bytes from the
// plan's. It leaves out strategies that send all gradients at the end, which the objective does not
// know, and strategies with storages that the search never chooses. --each prints a line per
// strategy, too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "app/costs.h"
#include "app/planning.h"
#include "core/check.h"
#include "search/estimate/estimate.h"
#include "search/search.h"
#include "sharding/memory_choices.h"

namespace hidup {
namespace {

// Returns "bert" for inputs/models/bert.yaml.
std::string stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

struct Compared {
  Evaluation objective;
  double simulated_s = 0.0, planned_bytes = 0.0;

  double memory_error() const { return objective.bytes / planned_bytes - 1.0; }
};

struct Pairs {
  int all = 0, alike = 0;
};

// Results of several models and clusters.
struct Totals {
  Pairs pairs;
  std::vector<double> memory_errors;
};

class Objectives {
 public:
  Objectives(const PlanningInput& input, const CostModel& costs, const SearchOptions& options)
      : input_(input), costs_(costs), options_(options) {}

  // Returns nothing where the strategy is no plan of the search.
  std::optional<Evaluation> of(const Strategy& strategy) {
    const BuiltProblem& built = problem(strategy);
    const auto choices = choices_of(input_.graph, built.problem, built, strategy);
    if (!choices || strategy.defer_gradients) {
      return std::nullopt;
    }
    const Plan plan{*choices, needed_starts(built.problem, *choices)};
    if (to_strategy(input_.graph, input_.mesh, built, plan).parameters != strategy.parameters) {
      return std::nullopt;
    }
    return evaluate(built.problem, plan);
  }

 private:
  const BuiltProblem& problem(const Strategy& strategy) {
    const bool chooses_memory = has_memory_choices(strategy);
    const auto [at, is_new] =
        problems_.try_emplace({strategy.microbatches, strategy.accumulate, chooses_memory});
    if (is_new) {
      at->second = build_problem(input_.graph, input_.mesh, costs_,
                                 {.microbatches = strategy.microbatches,
                                  .accumulate = strategy.accumulate,
                                  .bucket_bytes = options_.lowering.bucket_bytes,
                                  .memory_choices = chooses_memory});
    }
    return at->second;
  }

  const PlanningInput& input_;
  const CostModel& costs_;
  const SearchOptions& options_;
  std::map<std::tuple<int, int, bool>, BuiltProblem> problems_;
};

Pairs compare(const std::vector<Compared>& all) {
  constexpr double kMuch = 1.01;
  Pairs pairs;
  for (const Compared& slow : all) {
    for (const Compared& fast : all) {
      if (slow.simulated_s > kMuch * fast.simulated_s) {
        ++pairs.all;
        pairs.alike += slow.objective.seconds > fast.objective.seconds ? 1 : 0;
      }
    }
  }
  return pairs;
}

struct Deviation {
  double median = 0.0, worst = 0.0;
};

// Returns the deviation without the errors' signs.
Deviation deviation_of(std::vector<double> errors) {
  if (errors.empty()) {
    return {};
  }
  for (double& error : errors) {
    error = std::abs(error);
  }
  std::ranges::sort(errors);
  return {errors[errors.size() / 2], errors.back()};
}

void print_each(const Strategy& strategy, const Compared& one) {
  fmt::print(
      "  {} {}: simulated {:.3f} ms, objective {:+.1f} %; planned {:.1f} MiB, estimate {:+.1f} %\n",
      strategy.name, strategy.microbatches, 1e3 * one.simulated_s,
      100.0 * (one.objective.seconds / one.simulated_s - 1.0), one.planned_bytes / (1 << 20),
      100.0 * one.memory_error());
}

// Prints a row.
void compare_on(const std::string& model, const std::string& cluster, bool each, Totals& totals) {
  const PlanningInput input = read_planning_input(model, cluster, {}, std::nullopt);
  const CostModel costs(costs_without_ranks(input.deck, input.mesh));
  SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  options.level = SearchLevel::fast;
  options.time_limit_s = 0.0;
  const SearchOutcome found = search_for(input.graph, input.mesh, costs, costs, options);
  Objectives objectives(input, costs, options);
  std::vector<Compared> compared;
  std::vector<double> errors;
  for (const Candidate& candidate : found.candidates) {
    const std::optional<Evaluation> objective =
        candidate.seconds > 0.0 ? objectives.of(candidate.strategy) : std::nullopt;
    if (objective) {
      compared.push_back(
          {*objective, candidate.seconds, static_cast<double>(candidate.memory_bytes)});
      errors.push_back(compared.back().memory_error());
      if (each) {
        print_each(candidate.strategy, compared.back());
      }
    }
  }
  const Pairs pairs = compare(compared);
  const Deviation memory = deviation_of(errors);
  fmt::print("| {} | {} | {} of {} | {} | {:.1f} % | {:.1f} % | {:.1f} % |\n", stem(model),
             stem(cluster), compared.size(), found.candidates.size(), pairs.all,
             100.0 * pairs.alike / std::max(pairs.all, 1), 100.0 * memory.median,
             100.0 * memory.worst);
  std::fflush(stdout);
  totals.pairs.all += pairs.all;
  totals.pairs.alike += pairs.alike;
  totals.memory_errors.insert(totals.memory_errors.end(), errors.begin(), errors.end());
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  std::vector<std::string> decks(argv + 1, argv + argc);
  const bool each = std::erase(decks, "--each") > 0;
  hidup::Totals totals;
  fmt::print(
      "| model | cluster | strategies | pairs | alike | memory: median | worst |\n"
      "|---|---|---|---|---|---|---|\n");
  for (size_t c = 1; c < decks.size(); ++c) {
    try {
      hidup::compare_on(decks[0], decks[c], each, totals);
    } catch (const hidup::Error& error) {
      fmt::print("| {} | {} | {} | | | | |\n", decks[0], decks[c], error.what());
    }
  }
  const hidup::Deviation memory = hidup::deviation_of(totals.memory_errors);
  fmt::print("{} pairs, {} ordered alike; memory: median {:.1f} %, worst {:.1f} %\n",
             totals.pairs.all, totals.pairs.alike, 100.0 * memory.median, 100.0 * memory.worst);
  return 0;
}
