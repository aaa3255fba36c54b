#include "app/absorb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "app/costs.h"
#include "app/timing_header.h"
#include "made_up_run.h"
#include "program/work.h"
#include "small_decks.h"

namespace hidup {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A run of the small decks. Its times follow from the work of its instructions.
class AbsorbedRun : public testing::Test {
 protected:
  AbsorbedRun()
      : input_(SmallDecks().read({"train.microbatches=2"})),
        profile_(costs_without_ranks(input_.deck, input_.mesh)) {
    for (OperationTime& time : profile_.operations) {
      time.work.sizes = {1 << 20, 1 << 20, 1 << 20};  // far from those of the run
    }
    profile_.key.libraries = {"MPI 1"};
    profile_.key.hosts = {0, 0, 0, 0};
  }

  void make_program(const std::string& strategy) {
    step_ =
        forecast(input_.graph, choose_strategy(strategy, input_.deck, input_.graph, input_.mesh),
                 lowering_options(input_.deck), CostModel(profile_));
  }

  double seconds_of(size_t i) const {
    const Instruction& instruction = step_.program.instructions[i];
    if (!collective_of(instruction.opcode).empty()) {
      return 1e-3 + 2e-9 * paced_bytes(step_.program, instruction, 0);
    }
    const Work work = work_of(step_.program, instruction, 0);
    const double pace =
        1e-9 * (1.0 + static_cast<double>(static_cast<int>(instruction.opcode) % 5));
    return pace * (is_product(instruction.opcode) ? work.flops : work.bytes);
  }

  TimingRecord record_of(const MadeUpTimes& times) const {
    TimingHeader header = made_up_header(ranks_of(input_.mesh));
    header.program = program_info(step_.program);
    header.prediction = prediction_info(step_.prediction, step_.plan);
    TimingFile file(path_, true, header);
    for (int64_t step = 1; step <= 2; ++step) {
      append_made_up(file, header, step, times);
    }
    file.close();
    return read_timing_file(path_);
  }

  // Instructions run one after the other; step 1 has other times.
  TimingRecord in_turn() const {
    std::vector<Interval> times;
    double now = 0.0;
    for (size_t i = 0; i < step_.program.instructions.size(); ++i) {
      times.push_back({now, now + seconds_of(i)});
      now = times.back().end_s;
    }
    return record_of([times](int64_t step, int64_t /*rank*/, size_t i) {
      return step == 1 ? Interval{0.0, 1.0} : times[i];
    });
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "run.h5";
  PlanningInput input_;
  Profile profile_;
  Forecast step_;
};

TEST_F(AbsorbedRun, PredictionsAreTheGivenTimes) {
  for (const char* strategy : {"dp", "fsdp", "megatron"}) {
    make_program(strategy);
    Profile profile = profile_;
    const Absorbed absorbed = absorb(in_turn(), step_.program, profile);
    EXPECT_GT(absorbed.operations, 10) << strategy;
    EXPECT_GT(absorbed.messages, 1) << strategy;
    const Profile read = parse_profile(print_profile(profile), "profile");
    const Prediction now = simulate(step_.program, CostModel(read));
    BusyTimes given;
    for (size_t i = 0; i < step_.program.instructions.size(); ++i) {
      const bool computes = step_.program.instructions[i].stream == StreamKind::compute;
      (computes ? given.compute_s : given.comm_s) += seconds_of(i);
    }
    EXPECT_NEAR(now.busy.compute_s, given.compute_s, 5e-3 * given.compute_s) << strategy;
    EXPECT_NEAR(now.busy.comm_s, given.comm_s, 5e-3 * given.comm_s) << strategy;
  }
}

// Several messages, and sums beside them, have no time of their own.
TEST_F(AbsorbedRun, RoundedSumsAreNotTaken) {
  input_ = SmallDecks().read({"train.gradients=bf16"});
  for (const char* strategy : {"dp", "fsdp"}) {
    make_program(strategy);
    Profile profile = profile_;
    absorb(in_turn(), step_.program, profile);
    const CostModel costs(profile);
    const CostModel before(profile_);
    for (const Instruction& instruction : step_.program.instructions) {
      if (instruction.sent_as) {
        const double bytes = paced_bytes(step_.program, instruction, 0);
        EXPECT_EQ(costs.collective(Opcode::reduce_scatter, 0, bytes).alone_s,
                  before.collective(Opcode::reduce_scatter, 0, bytes).alone_s);
        EXPECT_EQ(costs.collective(Opcode::all_to_all, 0, bytes).alone_s,
                  before.collective(Opcode::all_to_all, 0, bytes).alone_s);
      }
    }
  }
}

// A message overlaps an operation on every rank.
TEST_F(AbsorbedRun, WhatRanBesideOthers) {
  make_program("dp");
  const std::vector<Instruction>& instructions = step_.program.instructions;
  const auto message = static_cast<size_t>(
      std::ranges::max_element(instructions, {},
                               [](const Instruction& each) {
                                 return each.opcode == Opcode::all_reduce ? each.bytes : 0.0;
                               }) -
      instructions.begin());
  ASSERT_GT(message, 0);
  ASSERT_EQ(instructions[message - 1].stream, StreamKind::compute);
  const size_t operation = message - 1;  // everything else ran before or after them
  const TimingRecord record = record_of([&](int64_t, int64_t rank, size_t i) {
    const double at = 10.0 * static_cast<double>(i);
    if (i == operation) {
      return Interval{at, at + 20.0};
    }
    // Rank 3 starts the message late, still within the operation.
    return i == message ? Interval{at + 1.0 + (rank == 3 ? 2.0 : 0.0), at + 8.0}
                        : Interval{at, at + 1e-3};
  });
  const double bytes = paced_bytes(step_.program, instructions[message], 0);
  const MessageTime before = CostModel(profile_).collective(Opcode::all_reduce, 0, bytes);
  Profile profile = profile_;
  for (CollectiveTimes& times : profile.collectives) {
    for (MessageTime& time : times.table) {
      time.beside_s *= 2.0;
    }
  }
  absorb(record, step_.program, profile);
  const CostModel costs(profile);
  const MessageTime after = costs.collective(Opcode::all_reduce, 0, bytes);
  EXPECT_GT(before.alone_s, 0.0);
  EXPECT_NEAR(after.beside_s, 5.0, 1e-9) << "from when rank 3 came";
  EXPECT_NEAR(after.alone_s, 2.5, 1e-9) << "changes by the same factor";
  const Work work = work_of(step_.program, instructions[operation], 0);
  EXPECT_LT(costs.operation(instructions[operation].opcode, work), 1.0)
      << "its time includes what the message took from it";
}

// `train` accepts the profile that absorb() writes, here from a profile with few times.
TEST_F(AbsorbedRun, TheProfileCanBeRead) {
  make_program("megatron");
  std::erase_if(profile_.collectives,
                [](const CollectiveTimes& times) { return times.opcode != Opcode::all_reduce; });
  profile_.operations.resize(1);
  const TimingRecord record = record_of([&](int64_t, int64_t /*rank*/, size_t i) {
    // 1e-14 s is less than profiles record.
    const double at = 10.0 * static_cast<double>(i);
    return Interval{at, at + (i % 2 == 0 ? seconds_of(i) : 1e-14)};
  });
  absorb(record, step_.program, profile_);
  EXPECT_NO_THROW(parse_profile(print_profile(profile_), "profile"));
}

TEST_F(AbsorbedRun, TimesOfNoMachineAreRefused) {
  make_program("dp");
  for (const double length : {5000.0, 1e6}) {
    const TimingRecord record = record_of([&](int64_t, int64_t /*rank*/, size_t i) {
      const double at = 1.1 * length * static_cast<double>(i);
      return Interval{at, at + length};
    });
    Profile profile = profile_;
    const auto [code, message] = error_of([&] { absorb(record, step_.program, profile); });
    EXPECT_EQ(code, ExitCode::file) << length;
    EXPECT_THAT(message, StartsWith(path_ + ": its times are those of no machine: "));
  }
}

TEST_F(AbsorbedRun, AnotherProgramIsRefused) {
  make_program("dp");
  const TimingRecord record = in_turn();
  make_program("fsdp");
  const auto [code, message] = error_of([&] { absorb(record, step_.program, profile_); });
  EXPECT_EQ(code, ExitCode::file);
  EXPECT_THAT(message, HasSubstr("had another program"));
}

TEST_F(AbsorbedRun, TheKeyIsThatOfTheRun) {
  make_program("dp");
  const TimingRecord record = in_turn();
  const ProfileKey fits{.build = "1.2.3 abc",
                        .device = "CPU, 4 thread(s), no graphs",
                        .libraries = {"MPI 1", "BLAS 2"},
                        .mesh = input_.mesh,
                        .hosts = {0, 0, 0, 0}};
  const auto mismatch = [&](const ProfileKey& key) {
    return profile_mismatch(key, key_of_run(record, input_.mesh, key));
  };
  EXPECT_EQ(mismatch(fits), "");
  ProfileKey other = fits;
  other.build = "1.2.3 abd";
  EXPECT_THAT(mismatch(other), HasSubstr("with build 1.2.3 abd, and this run has 1.2.3 abc"));
  other = fits;
  other.device = "CPU 2, 4 thread(s)";
  EXPECT_THAT(mismatch(other), HasSubstr("device CPU 2"));
  other = fits;
  other.libraries = {"MPI 1", "BLAS 3"};
  EXPECT_THAT(mismatch(other), HasSubstr("BLAS 2"));
  other = fits;
  other.hosts = {0, 0, 1, 1};
  EXPECT_THAT(mismatch(other), HasSubstr("ranks on hosts"));
}

}  // namespace
}  // namespace hidup
