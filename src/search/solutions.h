// What the dynamic programming finds, for every number of microbatches and of groups of them.
//
// A mesh of two axes is searched jointly, with a rule per axis in each choice, and one axis at a
// time (axes/by_axes.h). With more axes all combinations of rules are too many: a local search
// follows (axes/near_search.h), whose joint problem has the rules of the best strategy so far and
// those that differ from them on one axis. It gives no bound. For graphs of 40 layers and more
// both work on a reduced graph; what they find is extended to all blocks (extended_to()) and
// costed by the joint problem. Where the fastest plans do not fit in the memory, the problems get
// further choices (ProblemSolver::add_choices_of_memory()), and what is planned corrects the
// estimate.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "search/axes/by_axes.h"
#include "search/dp/certify.h"
#include "search/search.h"

namespace hidup {

struct Solution {
  int microbatches = 1;
  int accumulate = 1;
  bool memory_choices = false;  // BuildOptions::memory_choices
  // On several axes the joint problem: a rule per axis. None where that has too many choices.
  std::optional<BuiltProblem> built;
  DynamicResult found;  // plans of that problem; a lower bound of all strategies in any case
  // The best plans before certify() found a better one.
  std::vector<FoundPlan> before_proof;
  // What was found one axis at a time, best first. Behind solve() it is among the plans; without a
  // joint problem it stays here, with what was found jointly near it.
  std::vector<FoundStrategy> by_axes;
};

class ProblemSolver {
 public:
  // All of them have to outlive it.
  ProblemSolver(const Graph& graph, const Mesh& mesh, std::shared_ptr<const ReshardCosts> reshards,
                const SearchOptions& options, const Deadline& deadline);

  // The problems, one for each number of microbatches, and what is found one axis at a time.
  std::vector<Solution> build() const;
  // Plans for all of them, all axes jointly.
  void solve(std::vector<Solution>& solutions) const;
  // Where the fastest plans do not fit in the memory: puts in their place problems, solved, in
  // which parameters come and go, operations are computed again, and gradients add up over groups.
  void add_choices_of_memory(std::vector<Solution>& solutions) const;
  // Raises the lower bounds. One of a number of microbatches that is slower for certain than the
  // best plan of all others needs no better bound. Ends at `deadline`.
  void certify(std::vector<Solution>& solutions, const Deadline& deadline) const;

 private:
  BuildOptions build_options(const Solution& solution) const;
  bool memory_is_short(const std::vector<Solution>& solutions) const;
  DynamicOptions effort() const;        // one axis at a time
  DynamicOptions joint_effort() const;  // all at once
  void build(Solution& solution) const;
  void build(std::vector<Solution>& solutions) const;
  // One axis at a time: what is found, and a lower bound.
  void search_axes(Solution& solution) const;
  // The solution's searches that start from one strategy work on the shallow graph.
  bool is_shallow(const Solution& solution) const;
  std::vector<FoundStrategy> near(const Solution& solution, FoundStrategy start) const;
  // Where the best plan, planned, needs more than its estimate and does not fit: solves the problem
  // again with less memory.
  void correct_estimate(Solution& solution) const;
  void add_plans_of(const Solution& before, Solution& solution) const;
  void add_strategy(const Strategy& strategy, const char* by, Solution& solution) const;
  void add(const std::vector<FoundStrategy>& found, Solution& solution) const;
  std::optional<FoundStrategy> best_of(const Solution& solution) const;
  // On several axes: near_search.h, from the best of each.
  void search_near_best(std::vector<Solution>& solutions) const;

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
  const Deadline& deadline_;
  const bool one_axis_;
  const std::shared_ptr<const ReshardCosts> reshards_;  // of all problems
  std::optional<ReducedGraph> shallow_;                 // of a deep graph, on several axes
};

// The solutions have a plan or a strategy; their least objective, 0 where they have none; and the
// lower bound of the objective of all strategies, 0 where none is known.
bool has_plans(const std::vector<Solution>& solutions);
double least_objective(const std::vector<Solution>& solutions);
double lower_bound(const std::vector<Solution>& solutions);

}  // namespace hidup
