// bench_ordering MODEL CLUSTER...: whether the objective that the search minimizes orders
// strategies as the simulation does. Of every cluster: all plans and named strategies of one
// search, with every number of microbatches that it tries, and of all pairs of them that differ by
// more than 1 % in simulated time the share that the objective orders alike. Left out: strategies
// that send all gradients at the end, which the objective does not know, and those that store
// parameters as no choice of the search does.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/costs.h"
#include "app/planning.h"
#include "core/check.h"
#include "search/estimate.h"
#include "search/search.h"

namespace hidup {
namespace {

// "bert" of inputs/models/bert.yaml.
std::string stem(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

struct Times {
  double simulated = 0.0, objective = 0.0;
};

struct Pairs {
  int all = 0, alike = 0;
};

class Objectives {
 public:
  Objectives(const PlanningInput& input, const CostModel& costs, const SearchOptions& options)
      : input_(input), costs_(costs), options_(options) {}

  // None where the strategy is no plan of the search.
  std::optional<double> of(const Strategy& strategy) {
    const BuiltProblem& built = problem(strategy.microbatches);
    const auto choices = choices_of(input_.graph, built.problem, built, strategy);
    if (!choices || strategy.defer_gradients) {
      return std::nullopt;
    }
    const Plan plan{*choices, needed_starts(built.problem, *choices)};
    if (to_strategy(input_.graph, input_.mesh, built, plan).parameters != strategy.parameters) {
      return std::nullopt;
    }
    return evaluate(built.problem, plan).seconds;
  }

 private:
  const BuiltProblem& problem(int microbatches) {
    const auto [at, is_new] = problems_.try_emplace(microbatches);
    if (is_new) {
      at->second = build_problem(
          input_.graph, input_.mesh, costs_,
          {.microbatches = microbatches, .bucket_bytes = options_.lowering.bucket_bytes});
    }
    return at->second;
  }

  const PlanningInput& input_;
  const CostModel& costs_;
  const SearchOptions& options_;
  std::map<int, BuiltProblem> problems_;
};

Pairs compare(const std::vector<Times>& times) {
  constexpr double kMuch = 1.01;
  Pairs pairs;
  for (const Times& slow : times) {
    for (const Times& fast : times) {
      if (slow.simulated > kMuch * fast.simulated) {
        ++pairs.all;
        pairs.alike += slow.objective > fast.objective ? 1 : 0;
      }
    }
  }
  return pairs;
}

// Prints a row.
Pairs compare_on(const std::string& model, const std::string& cluster) {
  const PlanningInput input = read_planning_input(model, cluster, {}, std::nullopt);
  const CostModel costs(costs_without_ranks(input.deck, input.mesh));
  SearchOptions options = search_options(input.deck, input.graph, input.mesh, "");
  options.level = SearchLevel::fast;
  options.time_limit_s = 0.0;
  const SearchOutcome found = search_for(input.graph, input.mesh, costs, options);
  Objectives objectives(input, costs, options);
  std::vector<Times> times;
  for (const Candidate& candidate : found.candidates) {
    const std::optional<double> objective =
        candidate.seconds > 0.0 ? objectives.of(candidate.strategy) : std::nullopt;
    if (objective) {
      times.push_back({candidate.seconds, *objective});
    }
  }
  const Pairs pairs = compare(times);
  fmt::print("| {} | {} | {} of {} | {} | {:.1f} % |\n", stem(model), stem(cluster), times.size(),
             found.candidates.size(), pairs.all, 100.0 * pairs.alike / std::max(pairs.all, 1));
  std::fflush(stdout);
  return pairs;
}

}  // namespace
}  // namespace hidup

int main(int argc, char** argv) {
  hidup::Pairs all;
  fmt::print("| model | cluster | strategies | pairs | alike |\n|---|---|---|---|---|\n");
  for (int c = 2; c < argc; ++c) {
    try {
      const hidup::Pairs pairs = hidup::compare_on(argv[1], argv[c]);
      all.all += pairs.all;
      all.alike += pairs.alike;
    } catch (const hidup::Error& error) {
      fmt::print("| {} | {} | {} | | |\n", argv[1], argv[c], error.what());
    }
  }
  fmt::print("{} pairs, {} ordered alike\n", all.all, all.alike);
  return 0;
}
