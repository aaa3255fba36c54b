// Results of the dynamic programming for every number of microbatches and of groups.
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
  // The joint problem with a rule per axis, on several axes; none where it has too many choices.
  std::optional<BuiltProblem> built;
  DynamicResult found;  // plans of `built`; always a lower bound of all strategies
  // The best plans before certify() found a better one.
  std::vector<FoundPlan> before_proof;
  // Strategies of the search by one axis at a time, best first. After solve() they are among the
  // plans; without a joint problem they stay here, with the joint search's strategies near them.
  std::vector<FoundStrategy> by_axes;
};

class ProblemSolver {
 public:
  // All arguments must outlive the solver. `shares`: BuildOptions::shares.
  ProblemSolver(const Graph& graph, const Mesh& mesh, std::shared_ptr<const ReshardCosts> reshards,
                const SearchOptions& options, const Deadline& deadline,
                std::vector<ShareNumber> shares = {});

  // Builds a problem per number of microbatches, and searches one axis at a time.
  std::vector<Solution> build() const;
  // Finds plans for all solutions, jointly over all axes.
  void solve(std::vector<Solution>& solutions) const;
  // Returns true where the fastest plans of all solutions do not fit in memory.
  bool memory_is_short(const std::vector<Solution>& solutions) const;
  // Replaces the solutions where the fastest plans do not fit in memory. The new problems, solved,
  // may gather and free parameters, recompute operations, and accumulate gradients over groups.
  void add_choices_of_memory(std::vector<Solution>& solutions) const;
  // Raises the lower bounds until `deadline`. A number of microbatches that is certainly slower
  // than the best plan of the others needs no better bound.
  void certify(std::vector<Solution>& solutions, const Deadline& deadline) const;

 private:
  BuildOptions build_options(const Solution& solution) const;
  DynamicOptions effort() const;        // one axis at a time
  DynamicOptions joint_effort() const;  // all axes at once
  void build(Solution& solution) const;
  void build(std::vector<Solution>& solutions) const;
  // Adds strategies and a lower bound of the search by one axis at a time.
  void search_axes(Solution& solution) const;
  // Returns true where searches that start from one strategy use the shallow graph.
  bool is_shallow(const Solution& solution) const;
  std::vector<FoundStrategy> near(const Solution& solution, FoundStrategy start) const;
  // Solves the problem with less memory where the best plan's planned bytes exceed the limit.
  void correct_estimate(Solution& solution) const;
  void add_plans_of(const Solution& before, Solution& solution) const;
  void add_strategy(const Strategy& strategy, const char* by, Solution& solution) const;
  void add(const std::vector<FoundStrategy>& found, Solution& solution) const;
  std::optional<FoundStrategy> best_of(const Solution& solution) const;
  // Searches near the best strategy of each solution (near_search.h), on several axes.
  void search_near_best(std::vector<Solution>& solutions) const;

  const Graph& graph_;
  const Mesh& mesh_;
  const CostModel& costs_;
  const SearchOptions& options_;
  const Deadline& deadline_;
  const std::vector<ShareNumber> shares_;
  const bool one_axis_;
  const std::shared_ptr<const ReshardCosts> reshards_;  // shared by all problems
  std::optional<ReducedGraph> shallow_;                 // for deep graphs on several axes
};

// Returns the solutions for several limits of memory between the least of the ranks, where that is
// short, and the mean. Unequal parts may give each rank what it has room for; but of all that a
// plan keeps, only the sharded part can follow the memory, so limits near the least matter, too.
std::vector<std::vector<Solution>> solve_for_more_memory(
    const Graph& graph, const Mesh& mesh, const std::shared_ptr<const ReshardCosts>& reshards,
    const SearchOptions& options, const Deadline& deadline);

// These return: true where a solution has a plan or a strategy; the least objective of all, 0
// without any; and the lower bound for all strategies, 0 where unknown.
bool has_plans(const std::vector<Solution>& solutions);
double least_objective(const std::vector<Solution>& solutions);
double lower_bound(const std::vector<Solution>& solutions);

}  // namespace hidup
