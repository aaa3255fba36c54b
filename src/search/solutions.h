// Results of the dynamic programming for every number of microbatches and of groups.
//
// A mesh of two axes is searched jointly, with a rule per axis in each choice, and one axis at a
// time (axes/by_axes.h). With more axes all combinations of rules are too many: a local search
// follows (axes/near_search.h), whose joint problem has the rules of the best strategy so far and
// those that differ from them on one axis. It gives no bound. For graphs of 40 layers and more
// both work on a reduced graph; what they find is extended to all blocks (extended_to()) and
// costed by the joint problem. Where the fastest plans do not fit in the memory (short_memory.cpp),
// groups of microbatches come first, because they need no other problems. Where these leave time to
// gain, the problems get further choices. The bytes planned correct the estimate.
#pragma once

#include <limits>
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
  // Where memory is short: the simulated seconds of the fastest plan for any memory, and of the
  // fastest that fits; infinite without one.
  double free_s = std::numeric_limits<double>::infinity();
  double fitting_s = std::numeric_limits<double>::infinity();
};

class ProblemSolver {
 public:
  // All arguments must outlive the solver. `shares`: BuildOptions::shares.
  ProblemSolver(const Graph& graph, const Mesh& mesh, std::shared_ptr<const ReshardCosts> reshards,
                const SearchOptions& options, const Deadline& deadline,
                std::vector<ShareNumber> shares = {});

  // Builds a problem per number of microbatches, and searches one axis at a time.
  std::vector<Solution> build() const;
  // Finds plans for all solutions, jointly over all axes. Where the fastest plans of some solutions
  // fit in memory, this finds slower ones for the others; where none fits,
  // add_choices_of_memory() follows.
  void solve(std::vector<Solution>& solutions) const;
  // Returns true where the fastest plans of all solutions do not fit in memory.
  bool memory_is_short(const std::vector<Solution>& solutions) const;
  // Adds solutions where the fastest plans do not fit in memory. The first ones accumulate
  // gradients over groups. Where these do not make up for the memory, new problems follow, which
  // may also gather and free parameters and recompute operations.
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
  // Finds plans that fit in memory. `price_memory`: also where the fastest plan does not.
  void solve(Solution& solution, bool price_memory) const;
  // Adds the strategies of the search by one axis at a time to the plans.
  void add_by_axes(std::vector<Solution>& solutions) const;
  // Returns the fewest groups with which the solution's fastest plan may fit; none without any.
  std::optional<int> fewest_groups(const Solution& solution) const;
  // Solves and adds the solutions whose numbers are new.
  void add_grouped(std::vector<Solution> grouped, std::vector<Solution>& solutions) const;
  // Simulates the fastest plan of each solution, and the fastest that fits, and sets their times.
  void simulate(std::vector<Solution>& solutions) const;
  double simulated_s(const Solution& solution, const Plan& plan) const;
  // Replaces the solutions whose fastest plan does not fit.
  void add_choices(std::vector<Solution>& solutions) const;
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

// Sets the finder of plans that have none yet.
void name_finder(std::vector<FoundPlan>& plans, const char* by);

// These return: true where a solution has a plan or a strategy; the least objective of all, 0
// without any; and the lower bound for all strategies, 0 where unknown.
bool has_plans(const std::vector<Solution>& solutions);
double least_objective(const std::vector<Solution>& solutions);
double lower_bound(const std::vector<Solution>& solutions);

}  // namespace hidup
