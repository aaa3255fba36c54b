// Proposes the fastest strategies with unequal parts, where ranks compute at different paces.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "search/best_shares.h"
#include "search/estimate/choose_routes.h"
#include "search/new_shares.h"
#include "search/parallel.h"
#include "search/proposal.h"
#include "sharding/with_shares.h"

namespace hidup {
namespace {

// The number of fastest strategies that get unequal parts, each with other numbers of microbatches
// and groups: a microbatch of few sequences has few parts to give.
constexpr size_t kTried = 2;

}  // namespace

std::vector<Proposal> propose_shares(const SearchState& state) {
  if (!state.has_classes()) {
    return {};
  }
  std::vector<Proposal> of_more_memory;
  for (const std::vector<Solution>& solutions : state.of_more_memory) {
    std::vector<Proposal> plans = plans_of(state, solutions);
    const auto tried = static_cast<std::ptrdiff_t>(std::min(plans.size(), kTried));
    std::move(plans.begin(), plans.begin() + tried, std::back_inserter(of_more_memory));
  }
  std::vector<const Proposal*> starts;
  std::set<std::pair<int, int>> numbers;  // of microbatches and groups
  for (const Simulated& fast : state.fastest) {
    const Strategy& strategy = fast.proposal->parts.parts[0].strategy;
    const bool is_equal = std::ranges::equal(strategy.mesh, state.mesh, {}, &Axis::shares,
                                             &Axis::shares);  // dp-cp is not
    if (starts.size() < kTried && is_equal &&
        numbers.emplace(strategy.microbatches, strategy.accumulate).second) {
      starts.push_back(fast.proposal);
    }
  }
  for (const Proposal& plan : of_more_memory) {
    starts.push_back(&plan);
  }
  std::vector<std::pair<const Proposal*, size_t>> all;  // starts and axes
  for (size_t axis = 0; axis < state.mesh.size(); ++axis) {
    for (const Proposal* start : starts) {
      if (!state.classes(axis).empty()) {
        all.emplace_back(start, axis);
      }
    }
  }
  std::vector<std::optional<Proposal>> found(all.size());
  in_parallel(all.size(), state.options.threads, [&](size_t n) {
    in_time([&] { found[n] = with_best_shares(state, *all[n].first, all[n].second); });
  });
  std::vector<Proposal> proposals;
  for (std::optional<Proposal>& each : found) {
    if (each) {
      proposals.push_back(*std::move(each));
    }
  }
  return proposals;
}

Strategy with_new_shares(const Graph& graph, Strategy strategy, const Mesh& paced,
                         const CostModel& costs, const RankCosts& ranks,
                         const SearchOptions& options) {
  strategy = with_equal_parts(std::move(strategy));
  strategy.routes.clear();
  strategy.algorithms.clear();
  const SearchState state{
      .graph = graph, .mesh = paced, .costs = costs, .ranks = ranks, .options = options};
  std::vector<Proposal> proposals = {{.by = "shares",
                                      .make = [strategy] { return strategy; },
                                      .parts = parts_of(graph, {}, strategy)}};
  for (size_t axis = 0; axis < paced.size(); ++axis) {
    if (!state.classes(axis).empty()) {
      if (std::optional<Proposal> best = with_best_shares(state, proposals.front(), axis)) {
        proposals.push_back(*std::move(best));
      }
    }
  }
  const auto seconds = [&](Proposal& proposal) { return simulated_s(state, proposal); };
  Strategy best = std::ranges::min_element(proposals, {}, seconds)->make();
  best.name = strategy.name;
  lower_by_costs(graph, best, options.lowering, ReshardCosts(best.mesh, costs));
  return best;
}

}  // namespace hidup
