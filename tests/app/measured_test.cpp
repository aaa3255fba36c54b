#include "app/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "made_up_run.h"
#include "small_decks.h"

namespace hidup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimingHeader small_program() {
  TimingHeader header = made_up_header(2);
  header.strategy = {.name = "dp", .text = "a strategy"};
  header.program.text = "a program";
  header.program.rows = {
      {"layers.0.ffn.up", "compute", "compute", 0, "forward"},
      {"layers.0.ffn.up", "compute", "compute", 1, "forward"},
      {"layers.11.ffn.up", "compute", "compute", 0, "forward"},
      {"head", "compute", "compute", 0, "forward"},
      {"gradients.0.all_reduce", "collective", "comm", -1, "backward", "all_reduce"}};
  header.prediction = PredictionInfo{.iteration_s = 50.0,
                                     .compute_s = 20.0,
                                     .comm_s = 10.0,
                                     .exposed_comm_s = 5.0,
                                     .start_s = {0.0, 1.0, 2.0, 3.0, 4.0},
                                     .length_s = {1.0, 1.0, 1.0, 1.0, 7.0}};
  return header;
}

// Rank 0 computes every instruction for 3 s, rank 1 for 2 s; step 1 is ten times as slow, step 4
// twice. Rank 1 starts the message 4 s late and ends it 0.5 s later.
Interval ran(int64_t step, int64_t rank, size_t instruction) {
  const double slow = step == 1 ? 10.0 : step == 4 ? 2.0 : 1.0;
  const double begin = 10.0 * static_cast<double>(instruction);
  if (instruction == 4) {
    return rank == 0 ? Interval{begin, begin + 5.0 * slow}
                     : Interval{begin + 4.0, begin + 0.5 + 5.0 * slow};
  }
  return {begin, begin + (rank == 0 ? 3.0 : 2.0) * slow};
}

struct MadeUpFile {
  TemporaryFolder folder;
  std::string path = folder / "run.h5";

  void write(const TimingHeader& header, int64_t steps) const {
    TimingFile file(path, true, header);
    for (int64_t step = 1; step <= steps; ++step) {
      append_made_up(file, header, step, ran);
    }
    file.close();
  }
};

TEST(Measured, EqualOperationsTogetherAndTheFarthestFirst) {
  const MadeUpFile file;
  file.write(small_program(), 4);
  const MeasuredRun run = compare_with_prediction(read_timing_file(file.path));
  EXPECT_THAT(run.steps, ElementsAre(2, 3, 4)) << "the first step prepares";
  ASSERT_EQ(run.rows.size(), 3);
  EXPECT_EQ(run.rows[0].name, "layers.*.ffn.up");
  EXPECT_EQ(run.rows[0].what, "forward compute");
  EXPECT_EQ(run.rows[0].count, 3);
  EXPECT_DOUBLE_EQ(run.rows[0].predicted_s, 3.0);
  EXPECT_DOUBLE_EQ(run.rows[0].measured_s, 9.0) << "the slowest rank, the median step";
  EXPECT_EQ(run.rows[1].name, "gradients.*.all_reduce");
  EXPECT_EQ(run.rows[1].what, "backward all_reduce");
  EXPECT_DOUBLE_EQ(run.rows[1].predicted_s, 7.0);
  EXPECT_DOUBLE_EQ(run.rows[1].measured_s, 1.5) << "without the wait for rank 1";
  EXPECT_EQ(run.rows[2].name, "head");
  EXPECT_DOUBLE_EQ(run.rows[2].measured_s, 3.0);
}

TEST(Measured, TheWholeStepIsThatOfTheBusiestRank) {
  const MadeUpFile file;
  file.write(small_program(), 4);
  const MeasuredRun run = compare_with_prediction(read_timing_file(file.path));
  EXPECT_EQ(run.predicted.compute_s, 20.0);
  EXPECT_EQ(run.predicted.comm_s, 10.0);
  EXPECT_EQ(run.predicted.exposed_comm_s, 5.0);
  EXPECT_EQ(run.predicted_wall_s, 50.0);
  EXPECT_EQ(run.measured.compute_s, 4.0) << "without the first step";
  EXPECT_EQ(run.measured.comm_s, 31.0);
  EXPECT_EQ(run.measured.exposed_comm_s, 1.0);
  EXPECT_EQ(run.measured_wall_s, 300.0);
}

TEST(Measured, AStepThatIsThereInPartIsLeftOut) {
  const MadeUpFile file;
  const TimingHeader header = small_program();
  {
    TimingFile out(file.path, true, header);
    for (int64_t step = 1; step <= 2; ++step) {
      append_made_up(out, header, step, ran);
    }
    const std::vector<TimelineRow> rows = made_up_timeline(header, 3, ran);
    out.append_timeline(std::span(rows).first(7));
    out.close();
  }
  EXPECT_THAT(compare_with_prediction(read_timing_file(file.path)).steps, ElementsAre(2));
}

void expect_refused(const std::string& path, const std::string& why) {
  const auto [code, message] = error_of([&] { compare_with_prediction(read_timing_file(path)); });
  EXPECT_EQ(code, ExitCode::file);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_THAT(message, HasSubstr(why));
}

// Timing files that no run can have written.
struct Impossible {
  const char* why;
  void (*change)(TimingHeader& header, Iteration& step, BusyTimes& rank_1, TimelineRow& row);
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Impossible kImpossible[] = {
    {"strategy: predicted_iteration_s is -1, expected 0 to 1e+09 s",
     [](auto& header, auto&, auto&, auto&) { header.prediction->iteration_s = -1.0; }},
    {"strategy: predicted_compute_s is nan, ",
     [](auto& header, auto&, auto&, auto&) { header.prediction->compute_s = kNan; }},
    {"strategy: predicted_comm_s is inf, ",
     [](auto& header, auto&, auto&, auto&) { header.prediction->comm_s = HUGE_VAL; }},
    {"strategy: predicted_exposed_comm_s is 1e+300, ",
     [](auto& header, auto&, auto&, auto&) { header.prediction->exposed_comm_s = 1e300; }},
    {"strategy: predicted_peak_bytes is -1, expected 0 or more",
     [](auto& header, auto&, auto&, auto&) { header.prediction->peak_bytes = -1; }},
    {"program/predicted_s has -2, expected 0 to 1e+09 s",
     [](auto& header, auto&, auto&, auto&) { header.prediction->length_s[3] = -2.0; }},
    {"program/predicted_start_s has nan, ",
     [](auto& header, auto&, auto&, auto&) { header.prediction->start_s[4] = kNan; }},
    {"program/bytes has -1, expected 0 or more",
     [](auto& header, auto&, auto&, auto&) { header.program.rows[1].bytes = -1; }},
    {"program/flops has -1, expected 0 or more",
     [](auto& header, auto&, auto&, auto&) { header.program.rows[1].flops = -1; }},
    {"emulation: dilation is 0, expected a number above 0",
     [](auto& header, auto&, auto&, auto&) { header.emulation = {.dilation = 0.0}; }},
    {"emulation: dilation is nan, ",
     [](auto& header, auto&, auto&, auto&) { header.emulation = {.dilation = kNan}; }},
    {"iterations/step has 0, expected rising numbers from 1",
     [](auto&, auto& step, auto&, auto&) { step.step = 0; }},
    {"iterations/wall_s has -3, ", [](auto&, auto& step, auto&, auto&) { step.wall_s = -3.0; }},
    {"iterations/wall_s has nan, ", [](auto&, auto& step, auto&, auto&) { step.wall_s = kNan; }},
    {"ranks/compute_s has -1, ", [](auto&, auto&, auto& rank, auto&) { rank.compute_s = -1.0; }},
    {"ranks/comm_s has inf, ", [](auto&, auto&, auto& rank, auto&) { rank.comm_s = HUGE_VAL; }},
    {"ranks/exposed_comm_s: the times of step 2 are known in part",
     [](auto&, auto&, auto& rank, auto&) { rank.exposed_comm_s = kNan; }},
    {"timeline/start_s has -1, ", [](auto&, auto&, auto&, auto& row) { row.start_s = -1.0; }},
    {"timeline/end_s has nan, ", [](auto&, auto&, auto&, auto& row) { row.end_s = kNan; }},
    {"timeline/end_s has 1e+10, ", [](auto&, auto&, auto&, auto& row) { row.end_s = 1e10; }},
    {"instruction 3 of step 2 on rank 1 ends 29.5 s before it begins",
     [](auto&, auto&, auto&, auto& row) { row.end_s = 0.5; }}};

TEST(Measured, TimesThatCannotBeAreRefused) {
  for (const Impossible& each : kImpossible) {
    const MadeUpFile file;
    TimingHeader header = small_program();
    Iteration second{.step = 2, .wall_s = 200.0};
    BusyTimes rank_1{3.0, 4.0, 1.0};
    TimelineRow last;
    each.change(header, second, rank_1, last);
    TimingFile out(file.path, true, header);
    if (!header.emulation) {  // an emulated run's rows have more columns, and are read later
      if (second.step > 1) {
        append_made_up(out, header, 1, ran);
      }
      std::vector<TimelineRow> rows = made_up_timeline(header, 2, ran);
      last = rows[8];
      each.change(header, second, rank_1, last);
      rows[8] = last;
      const std::vector compute = {2.0, rank_1.compute_s};
      const std::vector comm = {3.0, rank_1.comm_s};
      const std::vector exposed = {0.0, rank_1.exposed_comm_s};
      out.append_iteration(second, {compute, comm, exposed}, {});
      out.append_timeline(rows);
    }
    out.close();
    expect_refused(file.path, each.why);
  }
}

// On GPUs not every step has times (cluster.device.timed_every).
TEST(Measured, StepsOfWhichNoTimesAreKnownAreLeftOut) {
  const MadeUpFile file;
  TimingFile out(file.path, true, small_program());
  append_made_up(out, small_program(), 1, ran);
  append_made_up(out, small_program(), 2, ran);
  const std::vector<double> unknown(2, kNan);
  for (const int64_t step : {3, 4, 5}) {
    out.append_iteration({.step = step, .wall_s = 500.0}, {unknown, unknown, unknown}, {});
  }
  out.close();
  const MeasuredRun run = compare_with_prediction(read_timing_file(file.path));
  EXPECT_THAT(run.steps, ElementsAre(2));
  EXPECT_EQ(run.measured.compute_s, 3.0);
  EXPECT_EQ(run.measured.comm_s, 21.0);
  EXPECT_EQ(run.measured.exposed_comm_s, 1.0);
  EXPECT_EQ(run.measured_wall_s, 500.0) << "that is known of all";
}

TEST(Measured, WhatCannotBeComparedIsRefused) {
  const MadeUpFile file;
  expect_refused(file.path, "no such file");
  expect_refused(file.folder / ".", "is a folder");
  expect_refused(file.folder.write("notes.txt", "no HDF5"), "file signature not found");
  file.write(small_program(), 1);
  expect_refused(file.path, "no timeline of a step after the run's first one");
  TimingHeader header = small_program();
  header.prediction.reset();
  file.write(header, 3);
  expect_refused(file.path, "has no prediction");
}

TEST(Measured, ADamagedFileIsRefused) {
  const MadeUpFile file;
  file.write(small_program(), 3);
  const auto bytes = std::filesystem::file_size(file.path);
  std::filesystem::resize_file(file.path, bytes / 2);
  expect_refused(file.path, "cannot");

  TimingHeader header = small_program();
  TimingFile out(file.path, true, header);
  std::vector<TimelineRow> rows = made_up_timeline(header, 1, ran);
  rows[3].instruction = 99;
  out.append_timeline(rows);
  out.close();
  expect_refused(file.path, "the timeline of step 1 lacks instructions");
}

}  // namespace
}  // namespace hidup
