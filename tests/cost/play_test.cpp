// Exact times of steps, computed by hand. tests/search/play_programs_test.cpp compares the times of
// whole programs with the simulation.
#include "cost/play.h"

#include <gtest/gtest.h>

#include <utility>

#include "core/check.h"
#include "cost/simulate.h"

namespace hidup {
namespace {

constexpr Nanoseconds kSecond = 1000000000;

using Times = std::vector<std::pair<double, double>>;  // start and end in seconds

// A program of instructions on values of 1,024 elements.
class MeshScript {
 public:
  explicit MeshScript(Mesh mesh) { program.mesh = std::move(mesh); }

  int compute(std::vector<int> waits = {}) {
    return add(Opcode::relu, StreamKind::compute, -1, std::move(waits));
  }
  int send(int axis, std::vector<int> waits = {}) {
    return add(Opcode::all_reduce, StreamKind::comm, axis, std::move(waits));
  }

  Program program;

 private:
  int add(Opcode opcode, StreamKind stream, int axis, std::vector<int> waits) {
    program.values.push_back({.name = "x",
                              .shape = {1024},
                              .layout = Layout(program.mesh.size(), Placement::replicate())});
    const auto value = static_cast<ValueId>(program.values.size() - 1);
    program.instructions.push_back({.opcode = opcode,
                                    .name = "i",
                                    .stream = stream,
                                    .axis = axis,
                                    .inputs = {value},
                                    .outputs = {value},
                                    .waits = std::move(waits)});
    return static_cast<int>(program.instructions.size()) - 1;
  }
};

// An operation takes 2 s, a message 3 s along any axis, 1 s of it for the smallest message.
Profile step_profile(double operation_s = 2.0) {
  constexpr double kBytes = 4096.0;
  Profile profile{
      .operations = {{Opcode::relu, {.bytes = 2.0 * kBytes, .sizes = {1, 1024}}, operation_s}}};
  for (size_t axis = 0; axis < 2; ++axis) {
    profile.collectives.push_back(
        {.opcode = Opcode::all_reduce,
         .axis = axis,
         .table = {{1.0, 1.0, 1.0, 1.0}, {kBytes, 3.0, 3.0, 1.0}, {2.0 * kBytes, 5.0, 5.0, 1.0}}});
  }
  return profile;
}

Times times_of(const PlayedStep& step, size_t rank, Nanoseconds since = 0) {
  Times times;
  for (const PlayedInstruction& played : step.ranks[rank]) {
    times.emplace_back(static_cast<double>(played.start - since) / 1e9,
                       static_cast<double>(played.end - since) / 1e9);
  }
  return times;
}

// Returns costs at this pace for the first rank, and twice the time for the others.
RankCosts first_is_fast(size_t ranks) {
  std::vector<size_t> classes(ranks, 1);
  classes[0] = 0;
  return {{CostModel(step_profile(2.0)), CostModel(step_profile(4.0))}, classes};
}

TEST(Play, StreamsRunBesideEachOther) {
  MeshScript script({{"ranks", 2}});
  script.compute();
  script.send(0);
  script.compute();
  const Durations durations(script.program, CostModel(step_profile()));
  const PlayedStep step = play(script.program, durations);
  EXPECT_EQ(times_of(step, 0), (Times{{0, 2}, {0, 3}, {2, 4}}));
  EXPECT_EQ(step.ranks[1], step.ranks[0]);
  EXPECT_EQ(step.end, 4 * kSecond);
  const PlayedStep later = play(script.program, durations, 10 * kSecond);
  EXPECT_EQ(times_of(later, 0, 10 * kSecond), times_of(step, 0));
  EXPECT_EQ(later.end, 14 * kSecond);
}

TEST(Play, LaunchAndSignalPassBetweenInstructions) {
  MeshScript script({{"ranks", 1}});
  const int first = script.compute();
  script.send(0, {first});
  script.compute();
  Profile profile = step_profile();
  profile.launch_s = 0.25;
  profile.signal_s = 0.5;
  profile.overhead_s = 10.0;
  const Durations durations(script.program, CostModel(profile));
  EXPECT_EQ(times_of(play(script.program, durations), 0),
            (Times{{0, 2}, {2.5, 5.5}, {2.25, 4.25}}));
  EXPECT_EQ(durations.overhead(), 10 * kSecond);
}

TEST(Play, ACollectiveStartsWithTheLastOfItsGroup) {
  // On node x gpu = 2 x 2 only rank 0 is fast: it meets rank 1 along the inner axis, rank 2 along
  // the outer one.
  MeshScript script({{"node", 2}, {"gpu", 2}});
  const int first = script.compute();
  script.send(1, {first});
  script.send(0);
  const PlayedStep step = play(script.program, Durations(script.program, first_is_fast(4)));
  EXPECT_EQ(times_of(step, 0), (Times{{0, 2}, {4, 7}, {7, 10}}));
  EXPECT_EQ(times_of(step, 1), (Times{{0, 4}, {4, 7}, {7, 10}}));
  EXPECT_EQ(times_of(step, 2), (Times{{0, 4}, {4, 7}, {7, 10}}));
}

TEST(Play, FastRanksWaitForSlowOnesWhereTheyMeet) {
  MeshScript script({{"ranks", 2}});
  script.compute();
  const int second = script.compute();
  const int message = script.send(0, {second});
  script.compute({message});
  const RankCosts costs = first_is_fast(2);
  const PlayedStep step = play(script.program, Durations(script.program, costs));
  EXPECT_EQ(times_of(step, 0), (Times{{0, 2}, {2, 4}, {8, 11}, {11, 13}}));
  EXPECT_EQ(times_of(step, 1), (Times{{0, 4}, {4, 8}, {8, 11}, {11, 15}}));
  const Prediction simulated = simulate(script.program, costs);
  EXPECT_DOUBLE_EQ(simulated.iteration_s, 15.0);
  EXPECT_DOUBLE_EQ(simulated.busy.compute_s, 12.0) << "of the slow rank";
}

TEST(Play, ARemovedWaitMovesTheEnds) {
  MeshScript script({{"ranks", 2}});
  const int first = script.compute();
  const int message = script.send(0, {first});
  script.compute();
  script.compute({message});
  const Durations durations(script.program, CostModel(step_profile()));
  EXPECT_EQ(times_of(play(script.program, durations), 1), (Times{{0, 2}, {2, 5}, {2, 4}, {5, 7}}));
  script.program.instructions[1].waits.clear();
  EXPECT_EQ(times_of(play(script.program, durations), 1), (Times{{0, 2}, {0, 3}, {2, 4}, {4, 6}}));
}

TEST(Play, OnlyTheBytesFollowALinkThatVaries) {
  // A message takes 1 s for its smallest size, then 2 s of bytes at the nominal bandwidth. The link
  // has this bandwidth until second 2, then a quarter of it until second 10.
  MeshScript script({{"ranks", 2}});
  script.send(0);
  script.send(0);
  const std::vector<BandwidthTrace> links = {BandwidthTrace(1e9, {{2.0, 1e9}, {8.0, 2.5e8}})};
  const Durations durations(script.program, CostModel(step_profile()), links);
  EXPECT_EQ(times_of(play(script.program, durations), 0), (Times{{0, 6}, {6, 11.25}}));
  EXPECT_EQ(durations.end_of(0, 1, 9 * kSecond), 12 * kSecond) << "the next period";
  EXPECT_EQ(durations.least(0, 0), 3 * kSecond);
  EXPECT_THROW(Durations(script.program, CostModel(step_profile()), {links[0], links[0]}), Error);
}

TEST(Play, AllOfAComputationFollowsADeviceThatVaries) {
  MeshScript script({{"ranks", 2}});
  script.compute();
  script.compute();
  script.send(0);
  const std::vector<BandwidthTrace> paces = {BandwidthTrace(),
                                             BandwidthTrace(1e9, {{3.0, 1e9}, {60.0, 2.5e8}})};
  const Durations durations(script.program, CostModel(step_profile()), {}, paces);
  const PlayedStep step = play(script.program, durations);
  EXPECT_EQ(times_of(step, 0), (Times{{0, 2}, {2, 4}, {0, 3}}));
  EXPECT_EQ(times_of(step, 1), (Times{{0, 2}, {2, 7}, {0, 3}}));
  EXPECT_EQ(durations.least(0, 1), 2 * kSecond);
  EXPECT_THROW(Durations(script.program, CostModel(step_profile()), {}, {paces[0]}), Error);
}

TEST(Play, StepsThatNobodyCountsAreRefused) {
  MeshScript script({{"ranks", 2}});
  script.compute();
  script.send(0);
  EXPECT_NO_THROW(Durations(script.program, CostModel(step_profile(9e8))));
  EXPECT_THROW(Durations(script.program, CostModel(step_profile(2e9))), Error);
  EXPECT_THROW(Durations(script.program, CostModel(step_profile(1e300))), Error);
  const BandwidthTrace slow(1e15, {{1.0, 1e15}, {1.0, 1e3}});
  EXPECT_THROW(Durations(script.program, CostModel(step_profile()), {slow}), Error);
}

TEST(Play, WhoSkipsDoesNotWait) {
  MeshScript script({{"ranks", 3}});
  script.compute();
  script.send(0, {0});
  script.program.instructions.back().group = {0};
  for (Value& value : script.program.values) {
    value.layout = {Placement::on_first_rank()};
  }
  const PlayedStep step = play(script.program, Durations(script.program, first_is_fast(3)));
  EXPECT_EQ(times_of(step, 0), (Times{{0, 2}, {2, 5}}));
  EXPECT_EQ(times_of(step, 2), (Times{{0, 0}, {0, 0}}));
}

TEST(RankCosts, NeedAClassForEveryRank) {
  const CostModel costs(step_profile());
  EXPECT_THROW(RankCosts({costs}, {0, 1}), Error);
  EXPECT_THROW(RankCosts({costs}, {}), Error);
  Profile other = step_profile();
  other.launch_s = 1.0;
  EXPECT_THROW(RankCosts({costs, CostModel(other)}, {0, 1}), Error);
}

}  // namespace
}  // namespace hidup
