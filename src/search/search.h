// The search for the strategy with the least predicted step time.
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
#include "program/memory.h"
#include "search/dp/dynamic.h"
#include "search/estimate/reduced_graph.h"
#include "sharding/hints.h"
#include "sharding/strategy.h"

namespace hidup {

// The effort of the proof that a plan is good: none, a few seconds, or up to a minute.
enum class SearchLevel { fast, standard, thorough };

struct SearchOptions {
  SearchLevel level = SearchLevel::standard;
  // Seconds until the search returns its best strategy; 0: no limit. If the limit is too short for
  // a plan, the search forecasts a named strategy, however long that takes.
  double time_limit_s = 0.0;
  Deadline deadline = {};  // for several searches together, and for tests
  Deadline too_late = {};  // without a time limit: the end of a forecast; for tests
  DynamicOptions effort;
  // The numbers to try, at most the number of sequences in the batch; 1 where it cannot be split.
  std::vector<int> microbatches = {1, 2, 4};
  // Groups of microbatches to try where memory is short, rising. The batch caps these numbers.
  std::vector<int> accumulate = {1, 2, 8};
  int64_t memory_limit = 0;  // bytes per rank for all data of the program; 0: no limit
  // Where the ranks' memories differ: the limit of every rank, of which memory_limit is the least.
  RankLimits memory_of_ranks = {};
  Hints hints;  // constraints on every strategy; see hints.h
  LoweringOptions lowering;
  // Plans of the dynamic programming to simulate. With 1, steps are up to 0.5 % slower.
  size_t simulated = 3;
  // The number of variations of the fastest plan to simulate, too, unless the graph is deep. With
  // 3, steps are up to 1.4 % slower; 12 take 13 % longer and speed up 1 deck of 15 (by 2 %).
  size_t variations = 6;
  // Simulates all named strategies and, on two axes, those with a name per axis (Baselines); false:
  // only those that may be faster.
  bool baselines = true;
  // On several axes, includes strategies with a name per axis.
  bool combinations = true;
  size_t threads = 2;
};

// The simulated results of a strategy.
struct Candidate {
  Strategy strategy;
  double seconds = 0.0;      // of a simulated step; 0 where the strategy breaks the hints
  BusyTimes busy;            // of the simulated step
  int64_t memory_bytes = 0;  // of the rank that needs most; 0: not planned
  int64_t memory_rank = 0;   // that rank; where limits differ, the one with the least room
  bool approximate = false;  // seconds, busy and bytes are extrapolated: reduced_graph.h
  double objective_s = 0.0;  // seconds by the objective (problem.h); 0: unknown
  bool feasible = true;      // meets the hints and fits in memory
  std::string reason = {};   // why it is infeasible: "needs 40 GiB of 16 GiB per rank"
  const char* by = "";       // the proposer (proposal.h)
};

constexpr const char* kNotInTime = "not simulated before the time limit";  // a Candidate::reason

struct SearchOutcome {
  // The forecast of the whole graph, which is printed, written and run. Its strategy is called
  // "search" unless it is a named one.
  Forecast step;
  // The least objective of all plans found. Where a time limit left that plan without a forecast,
  // at least the objective of the strategy taken. With Axis::paces: of equal ranks.
  double objective_s = 0.0;
  // The lower bound of that objective; 0 where none holds, as for gradients sent at the end and
  // with Axis::paces.
  double lower_bound_s = 0.0;
  double gap = 0.0;                   // objective_s / lower_bound_s - 1
  bool timed_out = false;             // a time limit ended the search early
  std::vector<Candidate> candidates;  // feasible ones first, by rising time
};

struct LeastMemoryStrategy {
  Strategy strategy;
  std::vector<ReducedGraph> reduced;  // the graphs of the estimate; empty: bytes are exact
  int64_t bytes = 0;                  // of the rank that needs most, for all data of the program
};

// The result where no strategy fits in memory.
struct Infeasible {
  LeastMemoryStrategy least;
};

using SearchResult = std::variant<SearchOutcome, Infeasible>;

// Simulates the best plans of the dynamic programming and the named strategies, each with every
// number of microbatches, and returns the fastest that fits: no fitting candidate is predicted to
// be faster. For a deep graph it simulates reduced graphs, then forecasts candidates on the whole
// graph, fastest first, until the first one has its forecast. Strategies with a name per axis are
// simulated with one number of microbatches unless they can win. Without `baselines` it simulates
// only named strategies that may win, plans memory for candidates, fastest first, until one fits,
// and for a deep graph returns only the name and number of microbatches of the other candidates. It
// needs no ranks and no devices. Where ranks compute at different paces (`ranks`: the costs of
// every rank; null: `costs`), the plans are those of equal ranks with `costs`, the simulation has
// all ranks, and the fastest strategies are also tried with unequal parts along axes with
// Axis::paces. Throws Error(usage) where the hints ask for more microbatches than
// there are sequences.
SearchResult search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                             const SearchOptions& options, const RankCosts* ranks = nullptr);

}  // namespace hidup
