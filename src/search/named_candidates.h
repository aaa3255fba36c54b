// The named strategies that the search compares with its own.
#pragma once

#include <optional>
#include <vector>

#include "search/estimate.h"
#include "search/least_time.h"
#include "search/named/combination.h"
#include "search/solutions.h"

namespace hidup {

struct NamedCandidate {
  StrategyParts parts;
  double objective_s = 0.0;  // 0 where it is not known
};

class NamedCandidates {
 public:
  // All of them have to outlive it. `reduced`: of the graph; empty: the graph itself.
  NamedCandidates(const Graph& graph, const Mesh& mesh, const CostModel& costs,
                  const SearchOptions& options, const std::vector<ReducedGraph>& reduced);

  // With numbers of microbatches and groups of the solutions. Of a strategy whose objective, or on
  // several axes whose least time, is so far above `best_s` that it cannot be faster, there is none
  // unless all are asked for (SearchOptions::baselines): then those with a single name count with
  // all numbers, and those with a name per axis with `microbatches`.
  std::vector<NamedCandidate> of(const std::vector<Solution>& solutions, double best_s,
                                 int microbatches);

 private:
  void add_plain(const std::vector<Solution>& solutions, double best_s);
  void add_by_axes(const std::vector<Solution>& solutions, double best_s, int microbatches);
  double objective_of(const StrategyParts& parts, const Solution& solution) const;

  const Graph& graph_;
  const SearchOptions& options_;
  const std::vector<ReducedGraph>& reduced_;
  std::vector<StrategyParts> plain_;         // of one microbatch; on one axis
  std::optional<Baselines> baselines_;       // on several
  std::vector<LeastTime::Seconds> least_s_;  // of each, by LeastTime
  std::vector<NamedCandidate> found_;
};

}  // namespace hidup
