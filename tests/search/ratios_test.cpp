// The linear program of unequal shares, against a grid of all shares.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "search/shares/pace_classes.h"
#include "search/shares/ratios.h"

namespace hidup {
namespace {

double between(double least, double most, std::mt19937_64& random) {
  return std::uniform_real_distribution(least, most)(random);
}

// Calls `visit` with shares on a grid of `steps`, each of which is the share of a whole class.
void for_shares(const std::vector<double>& ranks, int steps,
                const std::function<void(const std::vector<double>&)>& visit) {
  std::vector<double> shares(ranks.size());
  const std::function<void(size_t, int)> place = [&](size_t c, int left) {
    if (c + 1 == ranks.size()) {
      shares[c] = left / (steps * ranks[c]);
      visit(shares);
      return;
    }
    for (int taken = 0; taken <= left; ++taken) {
      shares[c] = taken / (steps * ranks[c]);
      place(c + 1, left - taken);
    }
  };
  place(0, steps);
}

bool fits(const RatioProgram& program, const std::vector<double>& compute,
          const std::vector<double>& state) {
  for (size_t c = 0; c < program.bytes.size(); ++c) {
    if (program.bytes[c].at(compute[c], state[c]) > program.limits[c] * (1.0 + 1e-9)) {
      return false;
    }
  }
  return true;
}

// Returns the least seconds of the grid; infinity where nothing on it fits.
double least_of_grid(const RatioProgram& program, int steps) {
  double least = std::numeric_limits<double>::infinity();
  for_shares(program.ranks, steps, [&](const std::vector<double>& compute) {
    for_shares(program.ranks, steps, [&](const std::vector<double>& state) {
      if (fits(program, compute, state)) {
        least = std::min(least, seconds_at(program, compute, state));
      }
    });
  });
  return least;
}

RatioProgram random_program(std::mt19937_64& random, bool limited) {
  RatioProgram program;
  const size_t classes = 2 + random() % 2;
  std::vector<double> speed;
  double ranks = 0.0;
  for (size_t c = 0; c < classes; ++c) {
    program.ranks.push_back(static_cast<double>(1 + random() % 4));
    speed.push_back(between(0.2, 1.0, random));
    ranks += program.ranks[c];
  }
  for (int phase = 0; phase < 3; ++phase) {
    RatioPhase& each = program.phases.emplace_back();
    each.overlaps = phase < 2;
    const double work = between(0.0, 1.0, random);
    const double update = between(0.0, 1.0, random);
    for (size_t c = 0; c < classes; ++c) {
      each.compute_s.push_back({between(0.0, 0.05, random), work / speed[c], update / speed[c]});
    }
    each.comm_s = {between(0.0, 0.1, random), between(0.0, 0.3, random), between(0.0, 0.3, random)};
  }
  for (size_t c = 0; limited && c < classes; ++c) {
    program.bytes.push_back({0.1, between(0.5, 1.0, random), between(0.5, 2.0, random)});
    program.limits.push_back(0.1 + between(0.9, 3.0, random) / ranks);
  }
  return program;
}

// The grid may only be slower. Without limits of memory it has a point near the optimum.
TEST(Ratios, AreThoseOfTheBestPointOfAGrid) {
  int compared = 0;
  for (int number = 0; number < 200; ++number) {
    std::mt19937_64 random(static_cast<uint64_t>(number));
    const RatioProgram program = random_program(random, number % 2 == 1);
    const bool two = program.ranks.size() == 2;
    const double least = least_of_grid(program, two ? 400 : 40);
    const std::optional<Ratios> found = solve_ratios(program);
    ASSERT_TRUE(found || least == std::numeric_limits<double>::infinity()) << number;
    if (!found || least == std::numeric_limits<double>::infinity()) {
      continue;  // the optimum may fit between the points of the grid
    }
    EXPECT_TRUE(fits(program, found->compute, found->state)) << number;
    EXPECT_LE(found->seconds, least * (1.0 + 1e-4)) << number;
    if (two && program.bytes.empty()) {
      EXPECT_GE(found->seconds, 0.995 * least) << number;
    }
    ++compared;
  }
  EXPECT_GE(compared, 150);
}

// Two fast and two slow devices, computation alone: a fast rank takes r / (2 (r + 1)).
TEST(Ratios, FollowTheSpeeds) {
  constexpr double kRatio = 1.7954;
  const RatioProgram program{
      .ranks = {2, 2},
      .phases = {{.compute_s = {{.of_compute = 1.0}, {.of_compute = kRatio}}, .comm_s = {}}}};
  const std::optional<Ratios> found = solve_ratios(program);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->compute[0], 0.3211, 1e-4);
  EXPECT_NEAR(found->compute[1], 0.1789, 1e-4);
  EXPECT_NEAR(found->state[0], 0.25, 1e-6);  // state takes no time: equal
  EXPECT_NEAR(found->state[1], 0.25, 1e-6);
}

TEST(Ratios, StateGoesWhereMemoryIs) {
  RatioProgram program{
      .ranks = {1, 1},
      .phases = {{.compute_s = {{.of_compute = 1.0}, {.of_compute = 3.0}}, .comm_s = {}}},
      .bytes = {{.of_compute = 1.0, .of_state = 4.0}, {.of_compute = 1.0, .of_state = 4.0}},
      .limits = {1.0, 4.5}};
  const std::optional<Ratios> found = solve_ratios(program);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->compute[0], 0.75, 1e-4);  // as without a limit
  EXPECT_LE(found->state[0], 0.0625 + 1e-6);
  program.limits = {0.5, 0.5};
  EXPECT_FALSE(solve_ratios(program));
}

}  // namespace
}  // namespace hidup
