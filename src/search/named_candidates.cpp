#include "search/named_candidates.h"

#include <algorithm>
#include <utility>

namespace hidup {
namespace {

// A named strategy whose objective, or on several axes whose least time, exceeds the best simulated
// time by more than this factor is not simulated unless all are asked for. The simulation took up
// to 9 % less than the objective (tests/bench/README.md).
constexpr double kOptimism = 1.1;

// Neither the objective nor the least time knows that all its gradients are one message.
bool is_cheaper_than_it_seems(const Strategy& strategy) {
  return strategy.defer_gradients;
}

StrategyParts with_numbers_of(const Solution& solution, StrategyParts parts) {
  for (StrategyParts::Part& part : parts.parts) {
    part.strategy.microbatches = solution.microbatches;
    part.strategy.accumulate = solution.accumulate;
  }
  return parts;
}

}  // namespace

NamedCandidates::NamedCandidates(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                                 const SearchOptions& options,
                                 const std::vector<ReducedGraph>& reduced)
    : graph_(graph), options_(options), reduced_(reduced) {
  if (axes_in_use(mesh) <= 1) {
    for (const std::string_view name : plain_names(mesh)) {
      plain_.push_back(
          options.hints.empty()
              ? named_parts(graph, reduced, name, mesh, 1)
              : parts_of(graph, reduced,
                         with_memory_hints(options.hints, named_strategy(name, graph, mesh))));
    }
  } else if (options.combinations) {
    LeastTime least(graph, mesh, costs, options.lowering.bucket_bytes);
    baselines_.emplace(graph, mesh, [&](const Strategy& strategy) {
      least_s_.push_back(least.seconds(strategy));
    });
  }
}

std::vector<NamedCandidate> NamedCandidates::of(const std::vector<Solution>& solutions,
                                                double best_s, int microbatches) {
  add_plain(solutions, best_s);
  if (baselines_) {
    add_by_axes(solutions, best_s, microbatches);
  }
  return std::exchange(found_, {});
}

void NamedCandidates::add_plain(const std::vector<Solution>& solutions, double best_s) {
  for (const StrategyParts& parts : plain_) {
    for (const Solution& solution : solutions) {
      const double objective = objective_of(parts, solution);
      if (options_.baselines || objective <= kOptimism * best_s ||
          is_cheaper_than_it_seems(parts.parts[0].strategy)) {
        found_.push_back({with_numbers_of(solution, parts), objective});
      }
    }
  }
}

void NamedCandidates::add_by_axes(const std::vector<Solution>& solutions, double best_s,
                                  int microbatches) {
  for (size_t n = 0; n < baselines_->size(); ++n) {
    const auto is_near = [&](const Solution& solution) {
      return least_s_[n].of(solution.microbatches) <= kOptimism * best_s;
    };
    if (!options_.baselines && !baselines_->is_plain(n) &&
        std::ranges::none_of(solutions, is_near)) {
      continue;
    }
    const StrategyParts parts =
        parts_of(graph_, reduced_, with_memory_hints(options_.hints, baselines_->strategy(n)));
    for (const Solution& solution : solutions) {
      const bool wanted =
          options_.baselines && (baselines_->is_plain(n) || solution.microbatches == microbatches);
      if (wanted || is_near(solution) || is_cheaper_than_it_seems(parts.parts[0].strategy)) {
        found_.push_back({with_numbers_of(solution, parts)});
      }
    }
  }
}

// 0 where the search does not know the strategy's rules, or had no time for the problem.
double NamedCandidates::objective_of(const StrategyParts& parts, const Solution& solution) const {
  double seconds = 0.0;
  if (!solution.built) {
    return seconds;
  }
  for (size_t p = 0; p < parts.parts.size(); ++p) {
    const StrategyParts::Part& part = parts.parts[p];
    const Problem& whole = solution.built->problem;
    const Problem problem = reduced_.empty() ? whole : restricted_to(whole, reduced_[p]);
    const auto choices = choices_of(*part.graph, problem, *solution.built, part.strategy);
    if (!choices) {
      return 0.0;
    }
    seconds += part.weight * evaluate(problem, *choices).seconds;
  }
  return seconds;
}

}  // namespace hidup
