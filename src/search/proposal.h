// The strategies that a search compares, and who proposes them.
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
#include "search/solutions.h"

namespace hidup {

// A strategy that may be the fastest.
struct Proposal {
  const char* by = "";             // the proposer's name, or how it found the strategy
  std::function<Strategy()> make;  // the strategy of the whole graph, without routes
  StrategyParts parts;             // what is simulated for it; made when needed where empty
  // The graphs of the parts; null where they are the whole graph or SearchState::reduced.
  std::shared_ptr<const std::vector<ReducedGraph>> graphs = nullptr;
  double objective_s = 0.0;  // 0 where it is not known
  int64_t bytes = 0;         // planned for the parts; 0 where they were not planned
  bool in_bound = true;      // the search's lower bound holds for this strategy
};

// The proposal with a change of its strategy, which neither the objective nor the bound knows.
Proposal with_change(Proposal proposal, const char* by,
                     const std::function<void(Strategy&)>& change);

// A proposal that was simulated.
struct Simulated {
  const Proposal* proposal;
  double seconds;
};

// Proposers know this. Proposals may refer to it: it outlives them.
struct SearchState {
  const Graph& graph;
  const Mesh& mesh;
  const CostModel& costs;
  const SearchOptions& options;
  std::vector<Solution> solutions;    // a problem for each number of microbatches and of groups
  std::vector<uint64_t> signatures;   // signatures_of() the problems without choices of memory
  std::vector<ReducedGraph> reduced;  // for strategies under which all blocks are equal; or none
  std::vector<Simulated> fastest;     // the proposals so far that may be taken, the fastest first
  bool timed_out = false;             // a time limit ended the search before all was tried

  // Infinite where nothing was simulated.
  double fastest_s() const;
};

// Who proposes strategies: a row of proposers.cpp.
struct Proposer {
  const char* name;
  std::vector<Proposal> (*propose)(const SearchState& state);
  // Its proposals count only if they take at most this part of the time of the fastest before.
  std::optional<double> worth = std::nullopt;
};

// In the order in which they are asked; each sees what those before it proposed.
std::span<const Proposer> proposers();
// For a search that has found nothing that fits: each proposal is tried by itself, until one fits.
std::span<const Proposer> last_proposers();

// The rows' functions, a file each.
std::vector<Proposal> propose_plans(const SearchState& state);
std::vector<Proposal> propose_variations(const SearchState& state);
std::vector<Proposal> propose_storages(const SearchState& state);
std::vector<Proposal> propose_deferred(const SearchState& state);
std::vector<Proposal> propose_names(const SearchState& state);
std::vector<Proposal> propose_deferred_dp(const SearchState& state);
std::vector<Proposal> propose_names_per_axis(const SearchState& state);
std::vector<Proposal> propose_more_microbatches(const SearchState& state);

std::vector<Proposal> propose_first_names(const SearchState& state);
std::vector<Proposal> propose_least_memory(const SearchState& state);

}  // namespace hidup
