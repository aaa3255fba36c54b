// The search for the strategy of the least predicted step time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/simulate.h"
#include "program/lower.h"
#include "search/dynamic.h"
#include "sharding/hints.h"
#include "sharding/strategy.h"

namespace hidup {

struct SearchOptions {
  DynamicOptions effort;
  // Tried; numbers beyond the batch are left out, and all but 1 where the batch cannot be split.
  std::vector<int> microbatches = {1, 2, 4};
  int64_t memory_limit = 0;  // bytes per rank, of all that the program keeps; 0: none
  Hints hints;               // kept by every strategy that is found; see hints.h
  LoweringOptions lowering;
  size_t simulated = 3;   // plans of the search that are simulated
  size_t variations = 6;  // of the fastest of them, if its graph is not deep: simulated too
  bool baselines = true;  // all named strategies are simulated; else those that may be faster
  size_t threads = 2;
  bool advice = true;  // where nothing fits, the error says what would
};

// A strategy as the simulation sees it.
struct Candidate {
  Strategy strategy;
  double seconds = 0.0;      // of a step, simulated; not where it does not keep the hints
  BusyTimes busy;            // of that step
  int64_t memory_bytes = 0;  // of the rank that needs most; 0 where nobody asked, see below
  bool approximate = false;  // seconds, busy and bytes are those of a deep graph: excerpt.h
  double objective_s = 0.0;  // what the search expected (problem.h); of named strategies: 0
  bool feasible = true;      // it keeps the hints and fits in the memory
  std::string reason = {};   // why not: "needs 40 GiB of 16 GiB per rank"
};

struct SearchOutcome {
  Strategy strategy;                  // called "search" if it is not a named one
  double seconds = 0.0;               // simulated
  double objective_s = 0.0;           // the least that the search found by its own objective
  double lower_bound_s = 0.0;         // of that objective
  double gap = 0.0;                   // objective_s / lower_bound_s - 1
  std::vector<Candidate> candidates;  // feasible ones, fastest first, then the others
};

// The fastest by simulation of the best plans that the dynamic programming finds and the named
// strategies, each with every number of microbatches: never one that is predicted slower than any
// that has been simulated. Without `baselines` those are left out whose objective is far above the
// best plan's time, memory is planned for as many candidates, fastest first, as are needed to find
// one that fits, and of a deep graph the others' strategies have a name and a number of
// microbatches only. Needs no ranks and no devices. Throws Error(infeasible) where none fits in the
// memory, with what the most frugal needs and what would help (memory_limit.h); Error(usage) where
// the hints ask for more microbatches than there are sequences.
SearchOutcome search_strategy(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                              const SearchOptions& options);

}  // namespace hidup
