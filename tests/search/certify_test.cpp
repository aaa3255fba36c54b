// Bounds of wide sweeps and of coarser problems, against trying all plans.
#include "search/dp/certify.h"

#include <gtest/gtest.h>

#include "brute_force.h"
#include "random_problem.h"
#include "search/dp/coarsen.h"
#include "search/dp/sweep.h"

namespace hidup {
namespace {

double rounding_of(double seconds) {
  return 1e-9 * (1.0 + seconds);
}

class Bounds : public testing::TestWithParam<int> {};  // microbatches

// Fewer seeds did not find a wrong rule of dominance.
TEST_P(Bounds, OfSweepsHoldForEveryWidth) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const Problem problem =
        random_problem({.seed = seed, .microbatches = GetParam(), .ops = 3 + seed % 4});
    const double least = least_seconds(problem).value();
    for (const size_t width : {1, 2, 3, 5, 20}) {
      Sweep sweep(problem, {.width = width, .certified = true, .bound_only = true});
      ASSERT_TRUE(sweep.run());
      ASSERT_LE(sweep.bound(), least + rounding_of(least)) << "seed " << seed << " width " << width;
    }
  }
}

TEST_P(Bounds, OfCoarserProblemsHold) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const Problem problem = random_problem({.seed = seed, .microbatches = GetParam()});
    const double least = least_seconds(problem).value();
    for (const double small_s : {0.0, 2.0, 8.0, 100.0}) {
      const Problem coarse = coarsened(problem, small_s);
      check_problem(coarse);
      ASSERT_LE(least_seconds(coarse).value(), least + rounding_of(least)) << "seed " << seed;
    }
  }
}

TEST_P(Bounds, AreRaisedUpToTheOptimum) {
  int near = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Problem problem = random_problem({.seed = seed, .microbatches = GetParam(), .ops = 6});
    const double least = least_seconds(problem).value();
    DynamicResult found = solve(problem, {});
    const double before = found.lower_bound;
    certify(problem, {}, {.gap = 0.0}, found.plans[0].cost.seconds, found);
    ASSERT_GE(found.lower_bound, before);
    ASSERT_LE(found.lower_bound, least + rounding_of(least)) << "seed " << seed;
    ASSERT_GE(found.plans[0].cost.seconds, least - rounding_of(least)) << "seed " << seed;
    near += found.lower_bound >= least - rounding_of(least) ? 1 : 0;
  }
  EXPECT_EQ(near, 200);  // 60 plans a state make the sweep exact
}

INSTANTIATE_TEST_SUITE_P(Microbatches, Bounds, testing::Values(1, 2, 3, 4));

// In a chain with residuals, only the residuals and a tensor with small reshards have several
// layouts: the coarser problem has one state.
TEST(Coarsening, LeavesFewerStates) {
  const Reshards small{.all = {{}, {.comm_s = 0.1}, {.comm_s = 0.1}, {}}, .read = 2};
  const Choice first{.output = 0};
  const Choice second{.output = 1};
  Problem problem{.microbatches = 2, .tensors = {{small, small}}};
  problem.kinds = {{{first, second}, 0}, {{}, 0}, {{}, 0}};
  for (const int layout : {0, 1}) {
    problem.kinds[1].choices.push_back({.inputs = {{layout, layout}}, .output = layout});
    problem.kinds[2].choices.push_back(
        {.inputs = {{layout, layout}, {layout, layout}}, .output = layout});
  }
  problem.ops = {{.kind = 0}, {.kind = 1, .inputs = {0}}, {.kind = 2, .inputs = {1, 0}}};
  Sweep whole(problem, {.width = 0});
  const Problem coarser = coarsened(problem, 0.2);
  Sweep coarse(coarser, {.width = 0});
  whole.run();
  coarse.run();
  EXPECT_GT(whole.largest_front(), 1U);
  EXPECT_EQ(coarse.largest_front(), 1U);
  EXPECT_EQ(coarsened(problem, 0.1).ops[2].inputs,
            std::vector<int>{1});  // the residual is not read
  EXPECT_EQ(coarsened(problem, 0.19).tensors[0].forward.all[1].comm_s, 0.1);  // of two microbatches
}

}  // namespace
}  // namespace hidup
