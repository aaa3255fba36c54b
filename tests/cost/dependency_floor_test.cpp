// The least time of a step, against all sets of small instances, and by hand.
#include "cost/dependency_floor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/random.h"

namespace hidup {
namespace {

int64_t floor_by_all_sets(const std::vector<Job>& jobs) {
  int64_t floor = 0;
  for (unsigned set = 1; set < 1U << jobs.size(); ++set) {
    int64_t head = std::numeric_limits<int64_t>::max();
    int64_t tail = head;
    int64_t sum = 0;
    for (size_t i = 0; i < jobs.size(); ++i) {
      if ((set >> i & 1U) != 0) {
        head = std::min(head, jobs[i].head);
        tail = std::min(tail, jobs[i].tail);
        sum += jobs[i].length;
      }
    }
    floor = std::max(floor, head + sum + tail);
  }
  return floor;
}

TEST(OneMachineFloor, IsTheMaximumOverAllSets) {
  const RandomStream random = random_stream(1, "jobs");
  uint64_t drawn = 0;
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(random.uniform(drawn++) * static_cast<float>(end));
  };
  for (int round = 0; round < 4000; ++round) {
    std::vector<Job> jobs(static_cast<size_t>(1 + below(9)));
    const int64_t largest = 1 + below(40);
    for (Job& job : jobs) {
      job = {.head = below(largest), .length = below(12), .tail = below(largest)};
    }
    ASSERT_EQ(one_machine_floor(jobs), floor_by_all_sets(jobs)) << "round " << round;
  }
}

TEST(OneMachineFloor, OfNothingIsNothing) {
  EXPECT_EQ(one_machine_floor({}), 0);
}

// A program of instructions of 2 s (computation) and 3 s (messages) on given values.
class DataScript {
 public:
  explicit DataScript(int64_t ranks = 1) { program.mesh = {{"ranks", ranks}}; }

  ValueId value() {
    program.values.push_back({.name = "x", .shape = {1024}, .layout = {Placement::replicate()}});
    return static_cast<ValueId>(program.values.size()) - 1;
  }
  int compute(ValueId in, ValueId out, std::vector<int> waits = {}, bool accumulate = false) {
    return add(accumulate ? Opcode::squared_norm : Opcode::relu, StreamKind::compute, in, out,
               std::move(waits), accumulate);
  }
  int send(ValueId in, ValueId out, std::vector<int> waits = {}) {
    return add(Opcode::all_reduce, StreamKind::comm, in, out, std::move(waits), false);
  }

  Program program;

 private:
  int add(Opcode opcode, StreamKind stream, ValueId in, ValueId out, std::vector<int> waits,
          bool accumulate) {
    program.instructions.push_back({.opcode = opcode,
                                    .name = "i",
                                    .stream = stream,
                                    .axis = stream == StreamKind::comm ? 0 : -1,
                                    .inputs = {in},
                                    .outputs = {out},
                                    .accumulate = accumulate,
                                    .waits = std::move(waits)});
    return static_cast<int>(program.instructions.size()) - 1;
  }
};

Profile seconds_profile(double relu_s = 2.0) {
  constexpr double kBytes = 4096.0;
  return {.operations = {{Opcode::relu, {.bytes = 2.0 * kBytes, .sizes = {1, 1024}}, relu_s}},
          .collectives = {{.opcode = Opcode::all_reduce,
                           .axis = 0,
                           .table = {{kBytes, 3.0, 3.0, 1.0}, {2.0 * kBytes, 6.0, 6.0, 1.0}}}}};
}

double floor_s(const Program& program, const RankCosts& costs) {
  return static_cast<double>(dependency_floor(program, Durations(program, costs))) * 1e-9;
}

TEST(DependencyFloor, IsThatOfTheBestOrder) {
  // Messages send results of the first and the third operation. The list sends the latter first.
  DataScript script;
  const ValueId x = script.value();
  const ValueId a = script.value();
  const ValueId b = script.value();
  const ValueId c = script.value();
  const int first = script.compute(x, a);
  script.compute(x, b);
  const int third = script.compute(x, c);
  script.send(c, c, {third});
  script.send(a, a, {first});
  const Durations durations(script.program, CostModel(seconds_profile()));
  EXPECT_EQ(play(script.program, durations).end, 12000000000);
  EXPECT_EQ(dependency_floor(script.program, durations), 8000000000)
      << "2 s, 2 x 3 s on the stream of communication";
}

TEST(DependencyFloor, ReadersComeAfterWritersAndWritersAfterReaders) {
  DataScript script;
  const ValueId x = script.value();
  const ValueId y = script.value();
  script.send(x, y);
  script.compute(y, x);
  script.send(x, x);
  EXPECT_DOUBLE_EQ(floor_s(script.program, CostModel(seconds_profile())), 8.0);
  script.program.instructions[1].inputs = {x};
  EXPECT_DOUBLE_EQ(floor_s(script.program, CostModel(seconds_profile())), 8.0)
      << "who overwrites x waits for its reader";
  script.program.instructions[1].outputs = {script.value()};
  EXPECT_DOUBLE_EQ(floor_s(script.program, CostModel(seconds_profile())), 6.0) << "readers do not";
}

TEST(DependencyFloor, AdditionsHaveNoOrderAmongThemselves) {
  // A sum adds first a value that a message brings after 3 s, then one that is ready at once.
  DataScript script;
  const ValueId sum = script.value();
  const ValueId late = script.value();
  const ValueId early = script.value();
  const int message = script.send(late, late);
  script.compute(late, sum, {message}, true);
  script.compute(early, sum, {}, true);
  const Durations durations(script.program, CostModel(seconds_profile()));
  EXPECT_EQ(play(script.program, durations).end, 7000000000);
  EXPECT_EQ(dependency_floor(script.program, durations), 5000000000);
  script.program.instructions[2].accumulate = false;
  EXPECT_EQ(dependency_floor(script.program, durations), 7000000000)
      << "who overwrites the sum comes after who adds to it";
}

TEST(DependencyFloor, CollectivesStartWithTheLastRank) {
  DataScript script(2);
  const ValueId x = script.value();
  script.compute(x, x);
  script.send(x, x);
  script.compute(x, x);
  const RankCosts costs({CostModel(seconds_profile(2.0)), CostModel(seconds_profile(4.0))}, {0, 1});
  EXPECT_DOUBLE_EQ(floor_s(script.program, costs), 11.0) << "of the slow rank";
}

TEST(DependencyFloor, LaunchesAndSignalsCount) {
  DataScript script;
  const ValueId x = script.value();
  script.compute(x, x);
  script.compute(x, x);
  script.send(x, x);
  Profile profile = seconds_profile();
  profile.launch_s = 0.25;
  profile.signal_s = 0.5;
  EXPECT_DOUBLE_EQ(floor_s(script.program, CostModel(profile)), 2.0 + 0.25 + 2.0 + 0.5 + 3.0);
}

}  // namespace
}  // namespace hidup
