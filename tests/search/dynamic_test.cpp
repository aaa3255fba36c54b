// The dynamic programming against trying all plans, and its properties on larger problems.
#include "search/dp/dynamic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "brute_force.h"
#include "random_problem.h"

namespace hidup {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DynamicOptions kExact{.width = 0, .states = 0};

double tolerance(double seconds) {
  return 1e-9 * (1.0 + seconds);
}

class SmallProblems : public testing::TestWithParam<int> {};

TEST_P(SmallProblems, ExactSearchFindsTheOptimum) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const Problem problem = random_problem({.seed = seed, .microbatches = GetParam()});
    const double least = least_seconds(problem).value();
    const DynamicResult found = solve(problem, kExact);
    ASSERT_FALSE(found.plans.empty());
    EXPECT_NEAR(found.plans[0].cost.seconds, least, tolerance(least)) << "seed " << seed;
    EXPECT_NEAR(found.lower_bound, least, tolerance(least)) << "seed " << seed;
  }
}

TEST_P(SmallProblems, ExactSearchFindsTheOptimumUnderALimitOfMemory) {
  for (uint64_t seed = 1000; seed < 1300; ++seed) {
    Problem problem = random_problem({.seed = seed, .microbatches = GetParam()});
    problem.memory_limit = some_limit(problem);
    const double least = least_seconds(problem).value();
    const DynamicResult found = solve(problem, kExact);
    ASSERT_FALSE(found.plans.empty());
    EXPECT_NEAR(found.plans[0].cost.seconds, least, tolerance(least)) << "seed " << seed;
    EXPECT_LE(found.plans[0].cost.bytes, problem.memory_limit);
    EXPECT_NEAR(found.lower_bound, least, tolerance(least)) << "seed " << seed;
  }
}

TEST_P(SmallProblems, BoundsHoldForEveryEffort) {
  for (uint64_t seed = 3000; seed < 3150; ++seed) {
    Problem problem = random_problem({.seed = seed, .microbatches = GetParam()});
    for (const double limit : {kInfinity, some_limit(problem)}) {
      problem.memory_limit = limit;
      const double least = least_seconds(problem).value();
      for (const size_t width : {1, 2, 3}) {
        for (const size_t states : {2, 1000}) {
          const DynamicResult found = solve(problem, {.width = width, .states = states});
          EXPECT_LE(found.lower_bound, least + tolerance(least)) << "seed " << seed;
          for (const FoundPlan& plan : found.plans) {
            EXPECT_GE(plan.cost.seconds, least - tolerance(least)) << "seed " << seed;
            EXPECT_LE(plan.cost.bytes, limit);
          }
        }
      }
    }
  }
}

TEST_P(SmallProblems, TimesScale) {
  for (uint64_t seed = 4000; seed < 4050; ++seed) {
    Problem problem = random_problem({.seed = seed, .microbatches = GetParam()});
    const double seconds = solve(problem, kExact).plans[0].cost.seconds;
    constexpr double kFactor = 8.0;
    problem.base_s *= kFactor;
    for (TensorCosts& tensor : problem.tensors) {
      for (Reshards* reshards : {&tensor.forward, &tensor.backward}) {
        for (Reshard& reshard : reshards->all) {
          reshard.comm_s *= kFactor;
          reshard.compute_s *= kFactor;
        }
      }
    }
    for (OpChoices& kind : problem.kinds) {
      for (Choice& choice : kind.choices) {
        for (double* time :
             {&choice.forward_compute_s, &choice.backward_compute_s, &choice.forward_comm_s,
              &choice.backward_comm_s, &choice.gather_s, &choice.sync_s, &choice.step_s}) {
          *time *= kFactor;
        }
      }
      std::ranges::reverse(kind.choices);  // their order does not matter
    }
    EXPECT_NEAR(solve(problem, kExact).plans[0].cost.seconds, kFactor * seconds,
                kFactor * tolerance(seconds))
        << "seed " << seed;
  }
}

// The convex hull of the time and the bytes of all plans, where it crosses the memory limit.
struct Hull {
  double bound_s = 0.0;    // the hull's time at the limit
  double fitting_s = 0.0;  // of the fastest plan on the hull that fits
  double free_s = 0.0;     // of the fastest plan
};

// Tries all pairs of a plan that fits and one that does not: the lowest line between two is the
// hull.
Hull hull_of(const Problem& problem) {
  std::vector<Evaluation> plans;
  for_all_plans(problem, [&](const Plan& plan) { plans.push_back(evaluate(problem, plan)); });
  const std::span fitting(std::ranges::stable_partition(
      plans, [&](const Evaluation& plan) { return plan.bytes > problem.memory_limit; }));
  const std::span others(plans.begin(), plans.size() - fitting.size());
  const double least_s = std::ranges::min(fitting, {}, &Evaluation::seconds).seconds;
  Hull hull{least_s, least_s, least_s};
  for (const Evaluation& other : others) {
    hull.free_s = std::min(hull.free_s, other.seconds);
    for (const Evaluation& one : fitting) {
      const double price = (one.seconds - other.seconds) / (other.bytes - one.bytes);
      const double s = one.seconds - price * (problem.memory_limit - one.bytes);
      if (price > 0.0 && s < hull.bound_s) {
        hull.bound_s = s;
        hull.fitting_s = one.seconds;
      }
    }
  }
  return hull;
}

// The sweeps are wide enough to find the fastest plan at every price.
TEST_P(SmallProblems, PricesOfMemoryLeadToTheConvexHull) {
  const DynamicOptions options{
      .width = 1000, .states = 0, .bounds = 0, .price_memory = false, .fill = false};
  int priced = 0, tight = 0;
  for (uint64_t seed = 6000; seed < 6200; ++seed) {
    Problem problem = random_problem({.seed = seed, .microbatches = GetParam()});
    const double limit = some_limit(problem);
    problem.memory_limit = limit;
    DynamicResult found = solve(problem, options);
    for (const double part : {1.0, 1.0, 0.9}) {  // twice with the same limit
      problem.memory_limit = part * limit;
      if (!least_seconds(problem) || found.too_large.empty()) {
        continue;
      }
      ++priced;
      const Hull hull = hull_of(problem);
      price_memory(problem, options, found);
      EXPECT_NEAR(found.too_large[0].cost.seconds, hull.free_s, tolerance(hull.free_s));
      ASSERT_FALSE(found.plans.empty()) << "seed " << seed;
      EXPECT_LE(found.plans[0].cost.seconds, hull.fitting_s * (1.0 + 1e-4)) << "seed " << seed;
      tight += found.lower_bound >= hull.bound_s * (1.0 - 1e-4) ? 1 : 0;
      EXPECT_LE(found.lower_bound, least_seconds(problem).value() * (1.0 + 1e-9));
      for (const FoundPlan& plan : found.plans) {
        EXPECT_LE(plan.cost.bytes, problem.memory_limit);
      }
    }
  }
  EXPECT_GT(priced, 200);  // of 600
  EXPECT_GE(tight, 0.97 * priced);
}

INSTANTIATE_TEST_SUITE_P(Microbatches, SmallProblems, testing::Values(1, 2, 4));

// Returns the same operations with a kind each, so that nothing repeats.
Problem without_repeats(Problem problem) {
  std::vector<OpChoices> kinds;
  for (size_t op = 0; op < problem.ops.size(); ++op) {
    kinds.push_back(problem.choices_of(op));
    problem.ops[op].kind = static_cast<int>(op);
  }
  problem.kinds = std::move(kinds);
  return problem;
}

TEST(RepeatedBlocks, AreSkippedAndCostNoMore) {
  int skipped = 0;
  double ratio = 0.0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const Problem problem = random_problem(
        {.seed = seed, .microbatches = 1 + static_cast<int>(seed % 3), .ops = 4, .blocks = 60});
    for (const size_t width : {1, 3}) {
      const DynamicOptions options{.width = width};
      const DynamicResult found = solve(problem, options);
      const DynamicResult whole = solve(without_repeats(problem), options);
      const double seconds = whole.plans[0].cost.seconds;
      EXPECT_EQ(whole.expanded, problem.ops.size());
      ratio += found.plans[0].cost.seconds / seconds / 240.0;
      EXPECT_LE(found.lower_bound, seconds) << "seed " << seed;
      skipped += found.expanded < problem.ops.size() / 2 ? 1 : 0;
    }
  }
  EXPECT_NEAR(ratio, 1.0, 1e-3);
  EXPECT_GE(skipped, 190);  // of 240: some problems' fronts repeat late
}

TEST(RepeatedBlocks, LeaveTheBoundABound) {
  int skipped = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Problem problem = random_problem({.seed = seed,
                                            .microbatches = 1 + static_cast<int>(seed % 3),
                                            .ops = 3,
                                            .blocks = 12,
                                            .most_choices = 2});
    const double least = solve(without_repeats(problem), kExact).plans[0].cost.seconds;
    for (const size_t width : {0, 1, 2}) {
      const DynamicResult found = solve(problem, {.width = width});
      EXPECT_LE(found.lower_bound, least + tolerance(least)) << "seed " << seed;
      EXPECT_GE(found.plans[0].cost.seconds, least - tolerance(least)) << "seed " << seed;
      skipped += found.expanded < problem.ops.size() ? 1 : 0;
      if (width == 0) {
        EXPECT_NEAR(found.plans[0].cost.seconds, least, tolerance(least)) << "seed " << seed;
        EXPECT_NEAR(found.lower_bound, least, 1e-8 * least) << "seed " << seed;
      }
    }
  }
  EXPECT_GE(skipped, 300);  // of 600
}

TEST(RepeatedBlocks, WorkDoesNotGrowWithTheirNumber) {
  const Problem some = random_problem({.seed = 9, .ops = 6, .blocks = 50});
  const Problem many = random_problem({.seed = 9, .ops = 6, .blocks = 5000});
  EXPECT_LE(solve(many, {}).expanded, solve(some, {}).expanded + 12);
}

// A relaxation that runs out of work gives no bound and no plan.
TEST(Bounds, RelaxationsStopAfterTheirWork) {
  int looser = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Problem problem = random_problem({.seed = seed, .ops = 6, .blocks = 3});
    const DynamicResult all = solve(problem, {.width = 1, .states = 1, .gap = 0.0});
    const DynamicResult none =
        solve(problem, {.width = 1, .states = 1, .bound_work = 0, .gap = 0.0});
    EXPECT_LE(none.lower_bound, all.lower_bound) << seed;
    EXPECT_GE(none.plans.at(0).cost.seconds, all.plans.at(0).cost.seconds) << seed;
    looser += none.lower_bound < all.lower_bound ? 1 : 0;
  }
  EXPECT_GT(looser, 25);
}

// One stage of 3 + 5 seconds, whose communication of 2 both passes can hide in one of two turns.
TEST(Evaluation, FollowsTheDuplexSchedule) {
  const Reshards free{.all = {{}, {}, {}, {}}, .read = 2};
  const Reshards dear{.all = {{}, {.comm_s = 2.0}, {}, {}}, .read = 2};
  Problem problem{.microbatches = 2, .tensors = {{dear, dear}, {free, free}}};
  problem.kinds = {
      {{{.output = 0, .forward_compute_s = 1.0, .backward_compute_s = 3.0, .sync_s = 0.5}}, 0},
      {{{.inputs = {{1, 1}}, .forward_compute_s = 4.0, .backward_compute_s = 7.0, .sync_s = 9.0}},
       1}};
  problem.ops = {{.kind = 0}, {.kind = 1, .inputs = {0}}};
  const Plan plan{.choices = {0, 0}, .starts = {false, true}};
  // Forward: 1 alone; max(1, 2); max(4, 2); 4 at the end. Backward: 3; max(3, 2), max(7, 2), 7, and
  // the first operation's 0.5, which nothing can hide. The second's 9 precede its communication,
  // use all of the first's idle 3 + 3, and leave its 2 exposed.
  EXPECT_DOUBLE_EQ(evaluate(problem, plan).seconds,
                   (1 + 2 + 4 + 4) + (3 + 3 + 7 + 7) + 0.5 + 3 + 2);
  problem.microbatches = 1;  // all in sequence; 3 seconds are idle
  EXPECT_DOUBLE_EQ(evaluate(problem, plan).seconds, (1 + 2 + 4) + (3 + 2 + 7) + 0.5 + 6);
}

// Messages of the step overlap with the computation since the last communication; in the backward
// pass, in which a bucket ends a stage, with that of all microbatches.
TEST(Evaluation, MessagesDoNotPassCommunication) {
  const Reshards free{.all = {{}, {}, {}, {}}, .read = 2};
  const Reshards dear{.all = {{}, {.comm_s = 2.0}, {}, {}}, .read = 2};
  Problem problem{.microbatches = 2, .tensors = {{dear, dear}, {free, free}}};
  problem.kinds = {{{{.output = 0, .forward_compute_s = 1.0, .backward_compute_s = 3.0}}, 0},
                   {{{.inputs = {{1, 1}}, .forward_compute_s = 4.0, .backward_compute_s = 7.0}}, 1},
                   {{{.inputs = {{0, 0}},
                      .forward_compute_s = 1.0,
                      .backward_compute_s = 1.0,
                      .gather_s = 6.0,
                      .sync_s = 20.0}},
                    1}};
  problem.ops = {{.kind = 0}, {.kind = 1, .inputs = {0}}, {.kind = 2, .inputs = {1}}};
  const std::vector<int> choices = {0, 0, 0};
  // 4 of the gather's 6 are hidden. Of the synchronization's 20, one microbatch hides 7, the other
  // 5 (its other 2 hide the communication), and the first stage the 1 that this leaves.
  EXPECT_DOUBLE_EQ(evaluate(problem, choices).seconds,
                   (1 + 2 + 5 + 5) + 2 + (3 + 3 + 8 + 8) + (20 - 7 - 5 - 1));
  problem.microbatches = 1;
  EXPECT_DOUBLE_EQ(evaluate(problem, choices).seconds, (1 + 2 + 5) + 2 + (3 + 2 + 8) + (20 - 7));
}

}  // namespace
}  // namespace hidup
