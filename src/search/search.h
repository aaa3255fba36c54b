// The search for the strategy of the least predicted step time.
//
// One loop (search.cpp) asks the proposers in turn (proposal.h), simulates what they propose,
// ranks it, plans memory and stops at the deadline. Each proposer sees what those before it
// proposed. Where nothing fits, the loop asks last_proposers(). `search --json` says who proposed
// how many strategies, and who won.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/deadline.h"
#include "cost/forecast.h"
#include "program/lower.h"
#include "search/dp/dynamic.h"
#include "search/estimate/reduced_graph.h"
#include "sharding/hints.h"
#include "sharding/strategy.h"

namespace hidup {

// How much the search does for the proof that its plan is good: nothing, what takes a second or a
// few, or up to a minute.
enum class SearchLevel { fast, standard, thorough };

struct SearchOptions {
  SearchLevel level = SearchLevel::standard;
  // Seconds after which the best so far is returned; 0: none. A plan is always there: where the
  // limit is too short for one, a named strategy, planned and simulated, however long that takes.
  double time_limit_s = 0.0;
  Deadline deadline = {};  // of several searches together, and for tests
  Deadline too_late = {};  // without a limit: when a forecast is given up; for tests
  DynamicOptions effort;
  // The numbers to try. Larger ones than the batch are left out; all but 1 where the batch cannot
  // be split.
  std::vector<int> microbatches = {1, 2, 4};
  // Groups of microbatches to try where memory is short, rising. Of larger numbers than the batch
  // allows, what it allows.
  std::vector<int> accumulate = {1, 2, 8};
  int64_t memory_limit = 0;  // bytes per rank, of all that the program keeps; 0: none
  Hints hints;               // kept by every strategy that is found; see hints.h
  LoweringOptions lowering;
  // Plans of the dynamic programming that are simulated. With 1 steps are up to 0.5 % slower.
  size_t simulated = 3;
  // Variations of the fastest plan that are simulated, too, unless the graph is deep. With 3 steps
  // are up to 1.4 % slower; 12 take 13 % longer, and make 1 deck of 15 faster (2 %).
  size_t variations = 6;
  // Simulate all named strategies, on two axes also those with a name per axis (Baselines); else
  // only those that may be faster.
  bool baselines = true;
  // On several axes strategies with a name per axis count, too.
  bool combinations = true;
  size_t threads = 2;
};

// A strategy as the simulation sees it.
struct Candidate {
  Strategy strategy;
  double seconds = 0.0;      // of a step, simulated; 0 where it does not keep the hints
  BusyTimes busy;            // of that step
  int64_t memory_bytes = 0;  // of the rank that needs most; 0 where not planned, see below
  bool approximate = false;  // seconds, busy and bytes are extrapolated: reduced_graph.h
  double objective_s = 0.0;  // by the objective (problem.h); 0 where that is not known
  bool feasible = true;      // it keeps the hints and fits in the memory
  std::string reason = {};   // why not: "needs 40 GiB of 16 GiB per rank"
  const char* by = "";       // who proposed it (proposal.h)
};

constexpr const char* kNotInTime = "not simulated before the time limit";  // a Candidate::reason

struct SearchOutcome {
  // Of the whole graph, whose strategy is called "search" if it is not a named one: what is
  // printed, written and run.
  Forecast step;
  // The least objective of all plans that were found; where a time limit left that one without a
  // forecast, that of the strategy that was taken.
  double objective_s = 0.0;
  // Of that objective; 0 where none is known: where the strategy sends all gradients at the end.
  double lower_bound_s = 0.0;
  double gap = 0.0;                   // objective_s / lower_bound_s - 1
  bool timed_out = false;             // a time limit ended it before all was tried
  std::vector<Candidate> candidates;  // feasible ones, fastest first, then the others
};

// The strategy that needs the least memory.
struct LeastMemoryStrategy {
  Strategy strategy;
  std::vector<ReducedGraph> reduced;  // by which the bytes are estimated; empty: they are exact
  int64_t bytes = 0;                  // of the rank that needs most, of all that the program keeps
};

// No strategy fits in the memory.
struct Infeasible {
  LeastMemoryStrategy least;
};

using SearchResult = std::variant<SearchOutcome, Infeasible>;

// Simulates the best plans of the dynamic programming and the named strategies, each with every
// number of microbatches, and returns the fastest that fits: no candidate that fits is predicted to
// be faster. Of a deep graph it simulates reduced graphs, and forecasts the whole for candidates,
// fastest first, until the first one has its forecast. Strategies with a name per axis that cannot
// be the fastest are simulated with one number of microbatches. Without `baselines` it simulates
// only named strategies that may win, plans memory for candidates, fastest first, until one fits,
// and of a deep graph it gives only names and numbers of microbatches for the strategies of the
// other candidates. Needs no ranks and no devices. Throws Error(usage) where the hints ask for more
// microbatches than there are sequences.
SearchResult search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                             const SearchOptions& options);

}  // namespace hidup
