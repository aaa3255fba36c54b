// Proposes the named strategies that may win.
#include <algorithm>
#include <deque>
#include <utility>

#include "core/check.h"
#include "search/memory_limit.h"
#include "search/named/combination.h"
#include "search/named/named_strategies.h"
#include "search/proposal.h"

namespace hidup {
namespace {

// Named strategies whose objective exceeds the best simulated time by more than this factor are not
// simulated, unless all are wanted. The objective was up to 9 % above the simulated time
// (tests/bench/README.md), and up to 15 % on several axes, where messages hide behind updates
// (Baselines.TheirObjectiveIsHardlyAboveTheSimulatedTime).
double optimism(const Mesh& mesh) {
  return axes_in_use(mesh) > 1 ? 1.2 : 1.1;
}

// The objective does not model sending all gradients in one message.
bool is_cheaper_than_it_seems(const Strategy& strategy) {
  return strategy.defer_gradients;
}
// As optimism(), for such a strategy. With 1.3, steps of vit-switch on h100-16k take 4.5 % longer;
// without a limit, searches of paper/bert-sgmoe on v100p100-2x8-6x8 take 25 % longer.
constexpr double kDeferredOptimism = 2.0;

// Evaluates the search's objective for strategies.
class Objectives {
 public:
  explicit Objectives(const SearchState& state) : state_(state) {
    for (const Solution& solution : state.solutions) {
      std::vector<Problem>& parts = problems_.emplace_back();
      for (const ReducedGraph& reduced : state.reduced) {
        if (solution.built) {
          parts.push_back(restricted_to(solution.built->problem, reduced));
        }
      }
    }
  }

  // Returns seconds by the problem of state.solutions[number]; 0 where the search does not know the
  // strategy's rules, or had no time to build the problem.
  double of(const StrategyParts& parts, size_t number) const {
    const Solution& solution = state_.solutions[number];
    if (!solution.built) {
      return 0.0;
    }
    double seconds = 0.0;
    for (size_t p = 0; p < parts.parts.size(); ++p) {
      const StrategyParts::Part& part = parts.parts[p];
      const Problem& problem =
          state_.reduced.empty() ? solution.built->problem : problems_[number][p];
      const auto choices = choices_of(*part.graph, problem, *solution.built, part.strategy);
      if (!choices) {
        return 0.0;
      }
      seconds += part.weight * evaluate(problem, *choices).seconds;
    }
    return seconds;
  }

 private:
  const SearchState& state_;
  std::vector<std::vector<Problem>> problems_;  // per solution and part
};

Strategy with_numbers_of(const Solution& solution, Strategy strategy) {
  strategy.microbatches = solution.microbatches;
  strategy.accumulate = solution.accumulate;
  return strategy;
}

// Returns the named strategy on each simulated graph.
StrategyParts parts_of_name(const SearchState& state, std::string_view name) {
  const Hints& hints = state.options.hints;
  return hints.empty()
             ? named_parts(state.graph, state.reduced, name, state.mesh, 1)
             : parts_of(state.graph, state.reduced,
                        with_memory_hints(hints, named_strategy(name, state.graph, state.mesh)));
}

// The strategies with a name per axis, on the simulated graphs. With hints it uses the whole graph,
// because hints name its operations.
class NamesPerAxis {
 public:
  explicit NamesPerAxis(const SearchState& state) : state_(state) {
    if (state.reduced.empty() || !state.options.hints.empty()) {
      on_graphs_.emplace_back(state.graph, state.mesh);
      return;
    }
    for (const ReducedGraph& reduced : state.reduced) {
      on_graphs_.emplace_back(reduced.graph, state.mesh);
      check(on_graphs_.back().size() == on_graphs_[0].size(), "a reduced graph has other names");
    }
  }

  size_t size() const { return on_graphs_[0].size(); }
  bool is_plain(size_t number) const { return on_graphs_[0].is_plain(number); }
  StrategyParts parts(size_t number) {
    if (on_graphs_.size() != state_.reduced.size()) {
      return parts_of(state_.graph, state_.reduced,
                      with_memory_hints(state_.options.hints, on_graphs_[0].strategy(number)));
    }
    StrategyParts parts;
    for (size_t g = 0; g < on_graphs_.size(); ++g) {
      const ReducedGraph& reduced = state_.reduced[g];
      parts.parts.push_back({&reduced.graph, on_graphs_[g].strategy(number), reduced.weight});
    }
    return parts;
  }

 private:
  const SearchState& state_;
  std::deque<Baselines> on_graphs_;  // the reduced graphs, or the whole one
};

// Proposes the strategy with the numbers of microbatches and groups of the solution.
Proposal proposal_of(const SearchState& state, const Solution& solution, const char* by,
                     const StrategyParts& parts, double objective_s) {
  const Strategy& part = parts.parts[0].strategy;
  Proposal proposal{
      .by = by,
      .make =
          [&state, &solution, name = part.name] {
            return with_numbers_of(
                solution, with_memory_hints(state.options.hints,
                                            named_strategy(name, state.graph, state.mesh)));
          },
      .parts = parts,
      .objective_s = objective_s,
      .in_bound =
          !is_cheaper_than_it_seems(part) || state.options.hints.defer_gradients.has_value()};
  for (StrategyParts::Part& each : proposal.parts.parts) {
    each.strategy = with_numbers_of(solution, std::move(each.strategy));
  }
  return proposal;
}

// Proposes the strategy with the numbers of every solution with which it may win or is wanted.
template <typename IsWanted>
std::vector<Proposal> proposals_of(const SearchState& state, const Objectives& objectives,
                                   const char* by, const StrategyParts& parts, IsWanted is_wanted) {
  std::vector<Proposal> proposals;
  const double factor =
      is_cheaper_than_it_seems(parts.parts[0].strategy) ? kDeferredOptimism : optimism(state.mesh);
  for (size_t s = 0; s < state.solutions.size(); ++s) {
    const double objective_s = objectives.of(parts, s);
    if (objective_s <= factor * state.fastest_s() || is_wanted(state.solutions[s])) {
      proposals.push_back(proposal_of(state, state.solutions[s], by, parts, objective_s));
    }
  }
  return proposals;
}

}  // namespace

std::vector<Proposal> propose_names(const SearchState& state) {
  const Objectives objectives(state);
  const std::vector<std::string_view> names = plain_names(state.graph, state.mesh);
  std::vector<Proposal> proposals;
  for (const std::string_view name : names) {
    std::ranges::move(proposals_of(state, objectives, "names", parts_of_name(state, name),
                                   [&](const Solution&) { return state.options.baselines; }),
                      std::back_inserter(proposals));
  }
  return proposals;
}

// Proposes dp with deferred gradients for models whose named strategies never defer them (those
// without experts). It pays where messages are short and many, which the objective does not model.
std::vector<Proposal> propose_deferred_dp(const SearchState& state) {
  std::vector<Proposal> proposals;
  const bool named = std::ranges::any_of(
      plain_names(state.graph, state.mesh),
      [](std::string_view name) { return find_strategy(name)->defer_gradients; });
  if (named || state.options.hints.defer_gradients) {
    return proposals;
  }
  for (const Proposal& dp : proposals_of(state, Objectives(state), "names",
                                         parts_of_name(state, "dp"), [](auto&) { return true; })) {
    Proposal deferred =
        with_change(dp, "deferred dp", state.graph, [](const Graph&, Strategy& strategy) {
          strategy.name = "search";
          strategy.defer_gradients = true;
        });
    if (broken_hint(state.graph, state.options.hints, deferred.make()).empty()) {
      proposals.push_back(std::move(deferred));
    }
  }
  return proposals;
}

std::vector<Proposal> propose_names_per_axis(const SearchState& state) {
  std::vector<Proposal> proposals;
  if (axes_in_use(state.mesh) <= 1 || !state.options.combinations) {
    return proposals;
  }
  const Objectives objectives(state);
  const int microbatches =
      state.fastest.empty() ? 0 : state.fastest[0].proposal->parts.parts[0].strategy.microbatches;
  const auto is_wanted = [&](const Solution& solution) {
    return state.options.baselines && solution.microbatches == microbatches;
  };
  NamesPerAxis names(state);
  for (size_t n = 0; n < names.size(); ++n) {
    if (!names.is_plain(n)) {
      std::ranges::move(
          proposals_of(state, objectives, "names per axis", names.parts(n), is_wanted),
          std::back_inserter(proposals));
    }
  }
  return proposals;
}

std::vector<Proposal> propose_first_names(const SearchState& state) {
  std::vector<Proposal> proposals;
  if (!state.timed_out) {
    return proposals;
  }
  for (const char* name : {"dp", "zero1", "fsdp"}) {
    proposals.push_back({.by = "first names", .make = [&state, name] {
                           Strategy strategy = with_memory_hints(
                               state.options.hints, named_strategy(name, state.graph, state.mesh));
                           strategy.microbatches = microbatches_of(state.graph, state.options)[0];
                           return strategy;
                         }});
  }
  return proposals;
}

std::vector<Proposal> propose_least_memory(const SearchState& state) {
  LeastMemoryStrategy least =
      least_memory_strategy(state.graph, state.mesh, state.costs, state.options, state.timed_out);
  const auto graphs = std::make_shared<const std::vector<ReducedGraph>>(std::move(least.reduced));
  return {{.by = "least memory",
           .make = [strategy = least.strategy] { return strategy; },
           .parts = parts_of(state.graph, *graphs, least.strategy),
           .graphs = graphs,
           .bytes = least.bytes}};
}

}  // namespace hidup
