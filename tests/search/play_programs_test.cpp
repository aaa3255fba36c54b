// The exact times of whole programs equal those of the simulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cost/dependency_floor.h"
#include "cost/play.h"
#include "search/named/named_strategies.h"
#include "setting.h"

namespace hidup {
namespace {

struct Case {
  std::string strategy;
  int microbatches = 1;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* strategy : {"dp", "zero1", "fsdp", "megatron", "megatron-sp", "ep-deepspeed"}) {
    for (const int microbatches : {1, 2, 4}) {
      all.push_back({strategy, microbatches});
    }
  }
  return all;
}

Program program_of(const Setting& setting, const Case& one) {
  const Graph graph = setting.graph();
  Strategy strategy = named_strategy(one.strategy, graph, setting.mesh);
  strategy.microbatches = one.microbatches;
  return lower(graph, strategy, setting.options.lowering);
}

// Each rounding is half a nanosecond, and roundings add up along the longest path.
double tolerance_s(const Program& program) {
  return static_cast<double>(program.instructions.size()) * 1e-9;
}

// Returns the rank that computes longest, whose times the simulation reports.
size_t busiest_rank(const Program& program, const PlayedStep& step) {
  size_t busiest = 0;
  Nanoseconds most = -1;
  for (size_t rank = 0; rank < step.ranks.size(); ++rank) {
    Nanoseconds busy = 0;
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const PlayedInstruction& played = step.ranks[rank][i];
      const bool computes = program.instructions[i].stream == StreamKind::compute;
      busy += computes ? played.end - played.start : 0;
    }
    if (busy > most) {
      most = busy;
      busiest = rank;
    }
  }
  return busiest;
}

void expect_equal(const Program& program, const RankCosts& costs, const std::string& name) {
  const Prediction simulated = simulate(program, costs);
  const PlayedStep step = play(program, Durations(program, costs));
  const double tolerance = tolerance_s(program);
  EXPECT_NEAR(static_cast<double>(step.end) * 1e-9, simulated.iteration_s, tolerance) << name;
  const std::vector<PlayedInstruction>& played = step.ranks[busiest_rank(program, step)];
  ASSERT_EQ(played.size(), simulated.instructions.size());
  for (size_t i = 0; i < played.size(); ++i) {
    const Interval& interval = simulated.instructions[i];
    ASSERT_NEAR(static_cast<double>(played[i].start) * 1e-9, interval.start_s, tolerance)
        << name << ", instruction " << i;
    ASSERT_NEAR(static_cast<double>(played[i].end) * 1e-9, interval.end_s, tolerance)
        << name << ", instruction " << i;
  }
}

TEST(PlayPrograms, EqualsTheSimulation) {
  const Setting setting = small_setting(8);
  for (const Case& one : cases()) {
    const Program program = program_of(setting, one);
    expect_equal(program, setting.costs(), one.strategy);
  }
}

TEST(PlayPrograms, EqualsTheSimulationOfUnequalDevices) {
  const Setting setting = small_setting(8);
  MachineRates slow = setting.machine;
  slow.flops /= 2.0;
  slow.memory_bandwidth /= 3.0;
  const RankCosts costs({setting.costs(), CostModel(roofline_profile(setting.mesh, slow))},
                        {0, 0, 1, 0});
  for (const Case& one : cases()) {
    const Program program = program_of(setting, one);
    expect_equal(program, costs, one.strategy);
    const double equal = simulate(program, setting.costs()).iteration_s;
    EXPECT_GT(simulate(program, costs).iteration_s, 1.2 * equal) << one.strategy;
  }
}

// Parts are even: with others the simulation takes its two ranks' parts for all.
TEST(PlayPrograms, EqualsTheSimulationOnTwoAxes) {
  Setting setting = small_setting(8);
  setting.mesh = {{"node", 2}, {"gpu", 4}};
  setting.machine.links = {{.bandwidth = 1e9, .latency_s = 2e-5},
                           {.bandwidth = 1e10, .latency_s = 5e-6}};
  for (const Case& one : cases()) {
    expect_equal(program_of(setting, one), setting.costs(), one.strategy);
  }
}

// No step is shorter, and none of these takes twice as long.
TEST(PlayPrograms, TakeAtLeastTheirDependencyFloor) {
  const Setting setting = small_setting(8);
  MachineRates slow = setting.machine;
  slow.flops /= 2.0;
  Profile late = roofline_profile(setting.mesh, setting.machine);
  late.launch_s = 1e-6;
  late.signal_s = 3e-6;
  const CostModel equal = setting.costs();
  const CostModel slower(roofline_profile(setting.mesh, slow));
  for (const Case& one : cases()) {
    const Program program = program_of(setting, one);
    for (const RankCosts& costs :
         {RankCosts(equal), RankCosts({equal, slower}, {0, 1, 0, 0}), RankCosts(CostModel(late))}) {
      const Durations durations(program, costs);
      const Nanoseconds end = play(program, durations).end;
      const Nanoseconds floor = dependency_floor(program, durations);
      EXPECT_LE(floor, end) << one.strategy;
      EXPECT_GT(static_cast<double>(floor), 0.5 * static_cast<double>(end))
          << one.strategy << ", " << one.microbatches;
    }
  }
}

// Some waits of a program repeat others. Removing one of the rest moves an end.
TEST(PlayPrograms, RemovedWaitsMoveEnds) {
  const Setting setting = small_setting(8);
  const Program program = program_of(setting, {"fsdp", 2});
  const Durations durations(program, setting.costs());
  const PlayedStep before = play(program, durations);
  int waits = 0;
  int moved = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].waits.empty()) {
      continue;
    }
    Program without = program;
    without.instructions[i].waits.clear();
    const PlayedStep after = play(without, durations);
    ++waits;
    moved += after.ranks != before.ranks ? 1 : 0;
    EXPECT_LE(after.end, before.end);
  }
  EXPECT_GT(waits, 20);
  EXPECT_GT(moved, waits / 4) << "of " << waits;
}

}  // namespace
}  // namespace hidup
