// Times of instructions, with an invented profile that makes the answer easy to see.
#include "cost/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace hidup {
namespace {

constexpr double kBytes = 4096.0;  // of every value here

// A program of named instructions on values of 1,024 elements.
class Script {
 public:
  explicit Script(int64_t ranks = 1) { program_.mesh = {{"ranks", ranks}}; }

  // Adds an instruction and returns its index.
  int compute(std::vector<int> waits = {}) { return add(Opcode::relu, StreamKind::compute, waits); }
  int send(std::vector<int> waits = {}) { return add(Opcode::all_reduce, StreamKind::comm, waits); }

  const Program& program() const { return program_; }
  Program& program() { return program_; }

 private:
  int add(Opcode opcode, StreamKind stream, std::vector<int> waits) {
    program_.values.push_back({.name = "x", .shape = {1024}, .layout = {Placement::replicate()}});
    const auto value = static_cast<ValueId>(program_.values.size() - 1);
    program_.instructions.push_back({.opcode = opcode,
                                     .name = "i",
                                     .stream = stream,
                                     .axis = stream == StreamKind::comm ? 0 : -1,
                                     .inputs = {value},
                                     .outputs = {value},
                                     .waits = std::move(waits)});
    return static_cast<int>(program_.instructions.size()) - 1;
  }
  Program program_;
};

// Returns a profile: an operation takes 2 s, a message alone 3 s.
Profile plain_profile() {
  return {.operations = {{Opcode::relu, {.bytes = 2.0 * kBytes, .sizes = {1, 1024}}, 2.0}},
          .collectives = {{.opcode = Opcode::all_reduce,
                           .axis = 0,
                           .table = {{kBytes, 3.0, 3.0, 1.0}, {2.0 * kBytes, 6.0, 6.0, 1.0}}}}};
}

std::vector<double> starts(const Prediction& prediction) {
  std::vector<double> starts;
  for (const Interval& interval : prediction.instructions) {
    starts.push_back(interval.start_s);
  }
  return starts;
}

Prediction predict(const Script& script, const Profile& profile) {
  return simulate(script.program(), CostModel(profile));
}

TEST(Simulate, StreamsRunBesideEachOther) {
  Script script;
  script.compute();
  script.send();
  script.compute();
  script.send();
  const Prediction prediction = predict(script, plain_profile());
  EXPECT_EQ(starts(prediction), (std::vector<double>{0, 0, 2, 3}));
  EXPECT_DOUBLE_EQ(prediction.iteration_s, 6.0);
  EXPECT_DOUBLE_EQ(prediction.busy.compute_s, 4.0);
  EXPECT_DOUBLE_EQ(prediction.busy.comm_s, 6.0);
  EXPECT_DOUBLE_EQ(prediction.busy.exposed_comm_s, 2.0);
}

TEST(Simulate, AnInstructionWaitsForTheOtherStream) {
  Script script;
  const int first = script.compute();
  const int message = script.send({first});
  script.compute();
  script.compute({message});
  const Prediction prediction = predict(script, plain_profile());
  EXPECT_EQ(starts(prediction), (std::vector<double>{0, 2, 2, 5}));
  EXPECT_DOUBLE_EQ(prediction.iteration_s, 7.0);
  EXPECT_DOUBLE_EQ(prediction.busy.exposed_comm_s, 1.0);
}

TEST(Simulate, BothStreamsSlowEachOther) {
  // Beside a message, which then takes 6 s, computation takes twice as long. Both run for 4 s,
  // which end the operation and 2/3 of the message; the rest takes 1 s alone.
  Script script;
  script.compute();
  script.send();
  Profile profile = plain_profile();
  profile.collectives[0].table = {{kBytes, 3.0, 6.0, 2.0}, {2.0 * kBytes, 6.0, 12.0, 2.0}};
  const Prediction prediction = predict(script, profile);
  EXPECT_NEAR(prediction.instructions[0].end_s, 4.0, 1e-9);
  EXPECT_NEAR(prediction.instructions[1].end_s, 5.0, 1e-9);
}

TEST(Simulate, LaunchSignalAndOverheadCount) {
  Script script;
  const int first = script.compute();
  script.send({first});
  script.compute();
  Profile profile = plain_profile();
  profile.launch_s = 0.25;
  profile.signal_s = 0.5;
  profile.overhead_s = 10.0;
  const Prediction prediction = predict(script, profile);
  EXPECT_EQ(starts(prediction), (std::vector<double>{0, 2.5, 2.25}));
  EXPECT_DOUBLE_EQ(prediction.iteration_s, 15.5);
}

TEST(Simulate, ACollectiveWaitsForTheSlowestRank) {
  // The first rank computes all, the last one nothing.
  Script script(2);
  const int first = script.compute();
  script.program().values[0].layout = {Placement::on_first_rank()};
  script.send({first});
  const Prediction prediction = predict(script, plain_profile());
  EXPECT_DOUBLE_EQ(prediction.iteration_s, 5.0);
  EXPECT_DOUBLE_EQ(prediction.busy.compute_s, 2.0);
}

// The rank that computes all is neither the first nor the last.
TEST(Simulate, ACollectiveWaitsForTheRankThatHasAll) {
  Script script(4);
  const int first = script.compute();
  script.program().values[0].layout = {Placement::shard(0, ShareNumber::only(2))};
  script.send({first});
  const Prediction prediction = predict(script, plain_profile());
  EXPECT_DOUBLE_EQ(prediction.iteration_s, 5.0);
  EXPECT_DOUBLE_EQ(prediction.busy.compute_s, 2.0);
}

TEST(Simulate, MessagesThatArePackedTakeLonger) {
  Script script;
  script.send();
  Program& program = script.program();
  program.values.push_back({.name = "buffer", .holds = {0}});
  program.instructions[0].outputs.push_back(1);
  Profile profile = plain_profile();
  profile.collectives.push_back({.opcode = Opcode::slice, .table = {{kBytes, 0.5, 0.5, 1.0}}});
  EXPECT_DOUBLE_EQ(predict(script, profile).iteration_s, 3.5);
}

// Returns a program in which the first of two ranks has more work; both streams are mostly busy.
Script long_script() {
  Script script(2);
  int message = -1;
  for (int i = 0; i < 20; ++i) {
    const int first = script.compute(message < 0 ? std::vector<int>{} : std::vector<int>{message});
    script.program().values[static_cast<size_t>(first)].layout = {Placement::on_first_rank()};
    message = script.send({first});
    script.compute();
    script.send();
  }
  return script;
}

// Returns a profile in which each stream slows the other.
Profile slowing_profile(double compute_s, double send_s) {
  return {.operations = {{Opcode::relu, {.bytes = 2.0 * kBytes, .sizes = {1, 1024}}, compute_s}},
          .collectives = {{.opcode = Opcode::all_reduce,
                           .axis = 0,
                           .table = {{kBytes, send_s, 1.3 * send_s, 1.7},
                                     {2.0 * kBytes, 2.0 * send_s, 2.6 * send_s, 1.7}}}}};
}

// The simulation ends, and its result does not depend on the unit of time.
TEST(Simulate, TimesMayBeOfAnyMagnitude) {
  const Script script = long_script();
  const double seconds = predict(script, slowing_profile(0.7, 1.1)).iteration_s;
  EXPECT_GT(seconds, 40 * 1.1);
  for (const double unit : {1e-15, 1e-9, 1e4, 1e6, 1e12, 1e100}) {
    const Prediction other = predict(script, slowing_profile(0.7 * unit, 1.1 * unit));
    EXPECT_NEAR(other.iteration_s / unit, seconds, 1e-9 * seconds) << unit;
  }
}

// Rounding loses tiny times next to huge ones.
TEST(Simulate, TinyTimesAndHugeOnesMix) {
  const Script script = long_script();
  for (const double tiny : {1e-300, 1e-15, 1e-12, 1e-9}) {
    for (const double huge : {1.0 / 3.0, 1e6 / 3.0, 1e15 / 3.0}) {
      Profile profile = slowing_profile(huge, tiny);
      EXPECT_NEAR(predict(script, profile).iteration_s, 40 * huge, 1e-6 * huge);
      profile = slowing_profile(tiny, huge);
      profile.launch_s = tiny;
      profile.signal_s = tiny;
      const double all = predict(script, profile).iteration_s;
      EXPECT_GE(all, 40 * huge * (1.0 - 1e-9));
      EXPECT_LE(all, 40 * huge * 1.3 * (1.0 + 1e-6));
    }
  }
}

// Events at the same time as others are not lost.
TEST(Simulate, EqualTimes) {
  Script script(2);
  for (int i = 0; i < 6; ++i) {
    script.compute();
    script.send();
  }
  script.program().values[0].layout = {Placement::on_first_rank()};
  for (const double each : {0.1, 1e5 / 3.0}) {
    const Prediction prediction = predict(script, slowing_profile(each, each / 1.3));
    for (const Interval& interval : prediction.instructions) {
      EXPECT_GT(interval.end_s, interval.start_s);
    }
  }
}

// Other links wait for the largest of unequal parts; NCCL broadcasts each of them.
TEST(Simulate, UnequalPartsTakeTheFasterWay) {
  for (const auto& [share, padded] : {std::pair(Share{3, 1}, 1.5), {Share{101, 99}, 1.01}}) {
    Program program;
    program.mesh = {{.name = "ranks", .size = 2, .shares = {share}}};
    for (const Placement& placement :
         {Placement::shard(0, ShareNumber::of(1)), Placement::replicate()}) {
      program.values.push_back({.name = "x", .shape = {200'000}, .layout = {placement}});
    }
    program.instructions.push_back({.opcode = Opcode::all_gather,
                                    .name = "i",
                                    .stream = StreamKind::comm,
                                    .axis = 0,
                                    .inputs = {0},
                                    .outputs = {1}});
    Profile profile = plain_profile();
    profile.collectives[0].opcode = Opcode::all_gather;
    profile.collectives[0].table = {{8e5, 1.0, 1.0, 1.0}, {8e6, 10.0, 10.0, 1.0}};
    EXPECT_NEAR(simulate(program, CostModel(profile)).iteration_s, padded, 1e-9);
    profile.rings_use_all_links = true;
    EXPECT_NEAR(simulate(program, CostModel(profile)).iteration_s, std::min(padded, 1.03466), 1e-5);
  }
}

}  // namespace
}  // namespace hidup
