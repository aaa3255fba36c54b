// The joint problem of two axes, of small random graphs, against trying all plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "brute_force.h"
#include "joint_cases.h"
#include "random_graph.h"
#include "search/dp/certify.h"
#include "search/estimate/choose_routes.h"
#include "search/problem/build_problem.h"
#include "search/search.h"
#include "setting.h"

namespace hidup {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kProblems = 510;

struct Small {
  Problem problem;
  double least = 0.0;  // seconds of a plan
};

// The cases have one, two and four microbatches, and three of every six a limit of memory.
Small small_problem(int number) {
  std::mt19937_64 random(static_cast<uint64_t>(number));
  const RandomSetting setting = random_setting(random);
  const BuildOptions build = {.microbatches = microbatches_of(number),
                              .bucket_bytes = kSmallBucket};
  Small small{.problem = build_problem(setting.graph, setting.mesh, setting.costs, build).problem};
  thin_out(small.problem, 1000.0, random);
  limit_every_other(number, small.problem);
  small.least = least_seconds(small.problem).value();
  return small;
}

TEST(TwoAxes, ExactSearchFindsTheOptimum) {
  for (int p = 0; p < kProblems; ++p) {
    const auto [problem, least] = small_problem(p);
    const DynamicResult found = solve(problem, {.width = 0, .states = 0});
    ASSERT_FALSE(found.plans.empty()) << p;
    EXPECT_NEAR(found.plans[0].cost.seconds, least, kRounding * least) << p;
    EXPECT_NEAR(found.lower_bound, least, 10.0 * kRounding * least) << p;
    EXPECT_LE(found.plans[0].cost.bytes, problem.memory_limit) << p;
  }
}

// Numbers of optimal plans, and of proofs, with search_strategy()'s options.
struct Quality {
  int optima = 0, proofs = 0;
};
Quality quality_of_usual_effort(bool limited) {
  Quality quality;
  for (int p = 0; p < kProblems; ++p) {
    if (is_limited(p) != limited) {
      continue;
    }
    const auto [problem, least] = small_problem(p);
    DynamicResult found = solve(problem, kUsual);
    EXPECT_FALSE(found.plans.empty()) << p;
    EXPECT_LE(found.lower_bound, least * (1.0 + kRounding)) << p;
    certify(problem, kUsual, {}, found.plans.at(0).cost.seconds, found);
    const double seconds = found.plans[0].cost.seconds;
    EXPECT_LE(found.lower_bound, least * (1.0 + kRounding)) << p;
    EXPECT_GE(seconds, least * (1.0 - kRounding)) << p;
    EXPECT_LE(found.plans[0].cost.bytes, problem.memory_limit) << p;
    quality.optima += seconds <= least * (1.0 + kRounding) ? 1 : 0;
    quality.proofs += seconds <= (1.0 + CertifyOptions().gap) * found.lower_bound ? 1 : 0;
  }
  return quality;
}

TEST(TwoAxes, TheUsualEffortFindsTheOptimum) {
  const Quality quality = quality_of_usual_effort(false);
  EXPECT_EQ(quality.optima, kProblems / 2);
  EXPECT_EQ(quality.proofs, kProblems / 2);
}

// A price of bytes finds many optima, sweeps of the plans that fit most others; two plans are
// slower, by less than the gap at which proofs end.
TEST(TwoAxes, TheUsualEffortFindsTheOptimumUnderALimitOfMemory) {
  const Quality quality = quality_of_usual_effort(true);
  EXPECT_EQ(quality.optima, kProblems / 2 - 2);
  EXPECT_EQ(quality.proofs, kProblems / 2);
}

// The sweeps of a small problem are exact, and wider ones raise no bound, which stays below the
// optimum by rounding. With so much work left, certify() would not end otherwise.
TEST(TwoAxes, ProofsEndWhereNoMoreCanBeProven) {
  for (int p = 0; p < 60; ++p) {
    const auto [problem, least] = small_problem(p);
    DynamicResult found = solve(problem, {.bounds = 0});
    certify(problem, {.bounds = 0}, {.gap = 0.0, .work = std::numeric_limits<size_t>::max()},
            found.plans.at(0).cost.seconds, found);
    EXPECT_NEAR(found.lower_bound, least, 10.0 * kRounding * least) << p;
  }
}

// Seconds by the objective and by the simulation.
struct Times {
  double objective = kInfinity, simulated = kInfinity;
};

// Returns the times of the plan that is fastest by the simulation.
Times fastest_simulated(const RandomSetting& setting, const SearchOptions& options) {
  const BuiltProblem built = build_problem(setting.graph, setting.mesh, setting.costs,
                                           {.microbatches = options.microbatches[0],
                                            .bucket_bytes = options.lowering.bucket_bytes,
                                            .hints = &options.hints});
  Times best;
  for_all_plans(built.problem, [&](const Plan& plan) {
    const Strategy strategy =
        with_routes(setting.graph, to_strategy(setting.graph, setting.mesh, built, plan),
                    options.lowering, setting.costs);
    const Program program = lower(setting.graph, strategy, options.lowering);
    const double seconds = simulate(program, setting.costs).iteration_s;
    if (seconds < best.simulated) {
      best = {evaluate(built.problem, plan).seconds, seconds};
    }
  });
  return best;
}

// The objective may exceed the simulation, in which messages pass stages that hold them here.
TEST(TwoAxes, TheBoundIsBelowTheFastestSimulatedStep) {
  int agree = 0;
  int below = 0;
  int fastest = 0;
  for (int number = 0; number < 60; ++number) {
    std::mt19937_64 random(static_cast<uint64_t>(1000 + number));
    const RandomSetting setting = random_setting(random);
    SearchOptions options{.microbatches = {microbatches_of(number)},
                          .hints = random_hints(setting, 100.0, random),
                          .lowering = simple_lowering(),
                          .combinations = false};
    const Times best = fastest_simulated(setting, options);
    const SearchOutcome found = searched(setting.graph, setting.mesh, setting.costs, options);
    EXPECT_LE(found.lower_bound_s, best.objective) << number;
    EXPECT_GE(found.step.seconds(), best.simulated * (1.0 - kRounding)) << number;
    const double most = best.simulated * (1.0 + kRounding);
    if (best.objective <= most) {
      EXPECT_LE(found.lower_bound_s, most) << number;
      ++agree;
    }
    below += found.lower_bound_s <= most ? 1 : 0;
    fastest += found.step.seconds() <= most ? 1 : 0;
  }
  EXPECT_EQ(agree, 47);
  EXPECT_EQ(below, 51);
  EXPECT_EQ(fastest, 43);
}

}  // namespace
}  // namespace hidup
