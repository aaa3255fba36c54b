// Proposes plans for unequal parts: the search and the linear program of shares in turn.
//
// Plans of the search's problems have equal parts, and unequal ones may make their messages slow.
// So a problem whose parts follow the shares finds other rules, and these have other best shares.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "search/best_shares.h"
#include "search/dp/repeats.h"
#include "search/parallel.h"
#include "search/proposal.h"
#include "sharding/with_shares.h"

namespace hidup {
namespace {

constexpr int kMostRounds = 3;
constexpr double kLeastGain = 1e-3;  // of a round, for another one
// Plans that take this many times the fastest step get no other shares.
constexpr double kHopeless = 1.1;
constexpr const char* kName = "shares in turn";

// Returns the best plans of problems whose rules all have the share along the axis. They are
// strategies, and refer to no solution. None where memory is short.
std::vector<Proposal> plans_for(const SearchState& state, const std::vector<int>& microbatches,
                                size_t axis, const Share& share) {
  SearchOptions options = state.options;
  options.microbatches = microbatches;
  Mesh mesh = state.mesh;
  mesh[axis].shares.push_back(share);
  std::vector<ShareNumber> shares(mesh.size());
  shares[axis] = ShareNumber::of(std::ssize(mesh[axis].shares));
  const ProblemSolver solver(state.graph, mesh,
                             std::make_shared<const ReshardCosts>(mesh, state.costs, &state.ranks),
                             options, TimeLimit::current(), shares);
  SearchState of_share{.graph = state.graph,
                       .mesh = mesh,
                       .costs = state.costs,
                       .ranks = state.ranks,
                       .options = options,
                       .solutions = solver.build()};
  std::vector<Solution>& solutions = of_share.solutions;
  if (solutions[0].built) {
    of_share.signatures = signatures_of(solutions[0].built->problem);
  }
  solver.solve(solutions);
  if (solver.memory_is_short(solutions)) {
    return {};
  }
  std::vector<Proposal> plans = plans_of(of_share, solutions);
  for (Proposal& plan : plans) {
    plan.by = kName;
    plan.make = [strategy = plan.make()] { return strategy; };
    plan.objective_s = 0.0;
    plan.in_bound = false;
  }
  return plans;
}

Proposal with_equal_parts(const SearchState& state, const Proposal& proposal) {
  return with_change(proposal, kName, state.graph, [](const Graph&, Strategy& strategy) {
    strategy = with_equal_parts(std::move(strategy));
  });
}

// Returns the fastest one's index, and its seconds.
std::pair<size_t, double> fastest_of(const SearchState& state, std::vector<Proposal>& proposals) {
  std::vector<double> seconds(proposals.size());
  in_parallel(proposals.size(), state.options.threads,
              [&](size_t n) { seconds[n] = simulated_s(state, proposals[n]); });
  const auto least = std::ranges::min_element(seconds);
  return {static_cast<size_t>(least - seconds.begin()), *least};
}

// Returns the fastest strategy with equal parts; without one, the fastest.
const Proposal& fastest_start(const SearchState& state) {
  const auto equal = std::ranges::find_if(state.fastest, [](const Simulated& fast) {
    return std::ranges::all_of(fast.proposal->parts.parts[0].strategy.mesh,
                               &std::vector<Share>::empty, &Axis::shares);
  });
  return equal == state.fastest.end() ? *state.fastest[0].proposal : *equal->proposal;
}

// Returns the numbers of microbatches of the first round: all; on several axes, where all take
// twice as long, those of the start and of the fastest strategy.
std::vector<int> first_microbatches(const SearchState& state, const Proposal& start) {
  if (axes_in_use(state.mesh) <= 1) {
    return state.options.microbatches;
  }
  const auto number = [](const Proposal& of) { return of.parts.parts[0].strategy.microbatches; };
  const std::set<int> numbers = {number(start), number(*state.fastest[0].proposal)};
  return {numbers.begin(), numbers.end()};
}

// Adds the best plan of every round, and the same with its best shares.
void add_in_turn(const SearchState& state, size_t axis, std::vector<Proposal>& proposals) {
  Proposal start = fastest_start(state);
  std::vector<int> microbatches = first_microbatches(state, start);
  double least_s = state.fastest_s();
  for (int round = 0; round < kMostRounds; ++round) {
    start = with_equal_parts(state, start);
    const std::optional<Share> share = planned_share(state, start, axis);
    std::vector<Proposal> plans;
    if (share) {
      plans = plans_for(state, microbatches, axis, *share);
    }
    if (plans.empty()) {
      return;
    }
    const auto [first, first_s] = fastest_of(state, plans);
    if (first_s > kHopeless * least_s) {
      return;
    }
    std::swap(plans[0], plans[first]);
    plans.resize(1);
    if (auto best = with_best_shares(state, with_equal_parts(state, plans[0]), axis)) {
      best->by = kName;
      plans.push_back(*std::move(best));
    }
    const auto [fastest, seconds] = fastest_of(state, plans);
    start = plans[fastest];
    std::ranges::move(plans, std::back_inserter(proposals));
    if (seconds > (1.0 - kLeastGain) * least_s) {
      return;
    }
    least_s = seconds;
    microbatches = {start.parts.parts[0].strategy.microbatches};
  }
}

}  // namespace

std::vector<Proposal> propose_shares_in_turn(const SearchState& state) {
  std::vector<Proposal> proposals;
  const bool hints_have_shares =
      !std::ranges::all_of(state.mesh, &std::vector<Share>::empty, &Axis::shares);
  if (state.fastest.empty() || state.solutions[0].memory_choices || hints_have_shares) {
    return proposals;
  }
  for (size_t axis = 0; axis < state.mesh.size(); ++axis) {
    if (!state.classes(axis).empty()) {
      in_time([&] { add_in_turn(state, axis, proposals); });
    }
  }
  return proposals;
}

}  // namespace hidup
