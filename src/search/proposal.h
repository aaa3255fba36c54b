// The strategies that a search compares, and their proposers.
//
// A proposal has no routes and no algorithms: lowering chooses them. The loop drops proposals that
// break the hints. A proposer proposes only what a Strategy can say; anything else needs
// sharding/strategy.h and src/program first.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/estimate/estimate.h"
#include "search/search.h"
#include "search/shares/pace_classes.h"
#include "search/solutions.h"

namespace hidup {

// A strategy that may be the fastest.
struct Proposal {
  const char* by = "";             // the proposer's name, or the method that found the strategy
  std::function<Strategy()> make;  // makes the strategy of the whole graph, without routes
  StrategyParts parts;             // the strategies to simulate; empty: made when needed
  // The graphs of the parts; null: the whole graph or SearchState::reduced.
  std::shared_ptr<const std::vector<ReducedGraph>> graphs = nullptr;
  double objective_s = 0.0;  // 0: unknown
  int64_t bytes = 0;         // planned for the parts; 0: not planned
  bool in_bound = true;      // the search's lower bound holds for this strategy
};

// Changes a strategy of the graph.
using Change = std::function<void(const Graph& graph, Strategy& strategy)>;

// Returns the proposal with a changed strategy. Objective and bound ignore the change. `graph`: the
// whole graph, which must outlive the proposal.
Proposal with_change(Proposal proposal, const char* by, const Graph& graph, const Change& change);

// A simulated proposal.
struct Simulated {
  const Proposal* proposal;
  double seconds;
};

// The state of a search that proposers see. It outlives the proposals, which may refer to it.
struct SearchState {
  const Graph& graph;
  const Mesh& mesh;
  const CostModel& costs;
  const RankCosts& ranks;  // of every rank; the problems rest on `costs`
  const SearchOptions& options;
  std::vector<Solution> solutions;  // one per number of microbatches and of groups
  // Where memory differs and is short: solutions for more memory than the least, up to the mean.
  // Their plans need unequal parts.
  std::vector<std::vector<Solution>> of_more_memory;
  std::vector<uint64_t> signatures;   // signatures_of() the problems without memory choices
  std::vector<ReducedGraph> reduced;  // for strategies with equal blocks; may be empty
  std::vector<Simulated> fastest;     // feasible proposals so far, the fastest first
  bool timed_out = false;             // a time limit ended the search early

  // Returns infinity where nothing was simulated.
  double fastest_s() const;
  // Returns the classes of ranks along the axis that differ in pace or memory; none where all are
  // alike.
  std::vector<PaceClass> classes(size_t axis) const;
  // Returns true where ranks differ along an axis: the problems are those of equal ranks then.
  bool has_classes() const;
};

// A source of proposals: a row of proposers.cpp.
struct Proposer {
  const char* name;
  std::vector<Proposal> (*propose)(const SearchState& state);
  // Drops proposals that take more than this part of the time of the fastest one before.
  std::optional<double> worth = std::nullopt;
  bool for_unequal_memory = false;  // uses SearchState::of_more_memory
};

// Returns the proposers in order; each sees the proposals of those before it.
std::span<const Proposer> proposers();
// Returns the proposers for searches in which nothing fits. The search tries their proposals one by
// one until one fits.
std::span<const Proposer> last_proposers();

// Returns the best plan of every solution, and as many others as the options simulate, by rising
// objective.
std::vector<Proposal> plans_of(const SearchState& state, const std::vector<Solution>& solutions);

// The functions of the rows, one file each.
std::vector<Proposal> propose_plans(const SearchState& state);
std::vector<Proposal> propose_variations(const SearchState& state);
std::vector<Proposal> propose_storages(const SearchState& state);
std::vector<Proposal> propose_deferred(const SearchState& state);
std::vector<Proposal> propose_names(const SearchState& state);
std::vector<Proposal> propose_deferred_dp(const SearchState& state);
std::vector<Proposal> propose_names_per_axis(const SearchState& state);
std::vector<Proposal> propose_more_microbatches(const SearchState& state);
std::vector<Proposal> propose_shares(const SearchState& state);
std::vector<Proposal> propose_shares_in_turn(const SearchState& state);

std::vector<Proposal> propose_first_names(const SearchState& state);
std::vector<Proposal> propose_least_memory(const SearchState& state);

}  // namespace hidup
