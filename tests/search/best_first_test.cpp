// The best-first search as a second opinion: against trying all plans, and against the dynamic
// programming.
#include "search/dp/best_first.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "brute_force.h"
#include "core/check.h"
#include "random_problem.h"
#include "setting.h"

namespace hidup {
namespace {

TEST(BestFirst, FindsWhatAllPlansAndTheDynamicProgrammingFind) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    Problem problem =
        random_problem({.seed = seed, .microbatches = 1 + static_cast<int>(seed % 4)});
    if (seed % 3 == 0) {
      problem.memory_limit = some_limit(problem);
    }
    const double least = least_seconds(problem).value();
    for (const bool heuristic : {false, true}) {
      const BestFirstResult found = best_first(problem, {.heuristic = heuristic});
      ASSERT_TRUE(found.plan.has_value()) << seed;
      EXPECT_NEAR(found.plan->cost.seconds, least, 1e-9 * (1.0 + least)) << seed;
      EXPECT_LE(found.plan->cost.bytes, problem.memory_limit) << seed;
    }
    const double dynamic = solve(problem, {.width = 0, .states = 0}).plans.at(0).cost.seconds;
    EXPECT_NEAR(dynamic, least, 1e-9 * (1.0 + least)) << seed;
  }
}

TEST(BestFirst, TheHeuristicExpandsAtMostAFifth) {
  size_t with = 0;
  size_t without = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem = random_problem({.seed = seed,
                                            .microbatches = 1 + static_cast<int>(seed % 4),
                                            .ops = 10,
                                            .most_choices = 4});
    const BestFirstResult found = best_first(problem, {.heuristic = true});
    const BestFirstResult blind = best_first(problem, {.heuristic = false});
    EXPECT_NEAR(found.plan->cost.seconds, blind.plan->cost.seconds, 1e-9) << seed;
    EXPECT_LE(found.expanded, blind.expanded) << seed;
    with += found.expanded;
    without += blind.expanded;
  }
  EXPECT_LE(5 * with, without) << with << " of " << without;
}

TEST(BestFirst, RefusesLargeProblems) {
  const Problem problem = random_problem({.ops = 5, .blocks = 4});
  try {
    best_first(problem, {.heuristic = false, .most_partial = 100});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the problem of 21 operations is too large for a best-first search: 100 partial "
                 "plans do not reach the end; search.method dp has no such limit");
    EXPECT_EQ(error.code(), ExitCode::usage);
  }
}

TEST(BestFirst, FindsAtLeastAsFastPlansInAWholeSearch) {
  const Graph graph = build_model(small_deck(1, 4), 1000);
  const Mesh mesh = {{"ranks", 4}};
  for (const int microbatches : {1, 2}) {
    SearchOptions options{.microbatches = {microbatches}, .lowering = simple_lowering()};
    const SearchOutcome dynamic = searched(graph, mesh, simple_costs(), options);
    options.effort.best_first = true;
    const SearchOutcome best = searched(graph, mesh, simple_costs(), options);
    EXPECT_LE(best.objective_s, dynamic.objective_s * (1.0 + 1e-12));
    EXPECT_GE(best.objective_s, dynamic.lower_bound_s * (1.0 - 1e-12));
    EXPECT_NEAR(best.gap, 0.0, 1e-12);
    EXPECT_TRUE(std::ranges::any_of(best.candidates, [](const Candidate& candidate) {
      return std::string_view(candidate.by) == "best first";
    }));
  }
}

}  // namespace
}  // namespace hidup
