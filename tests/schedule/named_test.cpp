#include "schedule/named.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "schedule/csv.h"
#include "schedule/verify.h"
#include "support.h"

namespace hidup::pipeline {
namespace {

using Formula = std::function<int(int stages, int microbatches, int stage)>;

struct Case {
  std::string name;
  Formula live;
  // The makespan with F = B = W = 1, where there are at least as many microbatches as stages.
  std::function<int(int stages, int microbatches)> makespan;
};

int with_flush(int stages, int microbatches) {
  return 3 * (microbatches + stages - 1);
}
// Weights passes fill all idle times but those before the first arrival.
int filled(int stages, int microbatches) {
  return 3 * microbatches + stages - 1;
}

const std::vector<Case> kCases = {
    {"gpipe", [](int, int m, int) { return m; }, with_flush},
    {"1f1b", [](int s, int m, int i) { return std::min(m, s - i); }, with_flush},
    {"kfkb", [](int s, int m, int i) { return std::min(m, 2 * (s - i)); }, with_flush},
    {"dapple", [](int s, int m, int i) { return std::min(m, 2 * (s - i) - 1); }, with_flush},
    {"zb-h1", [](int s, int m, int i) { return std::min(m, s - i); }, filled},
    {"zb-h2", [](int s, int m, int i) { return std::min(m, 2 * (s - i) - 1); }, filled},
};

TEST(NamedSchedules, HaveTheMakespansAndLiveMicrobatchesOfTheirFormulas) {
  for (const Case& row : kCases) {
    for (const int stages : {2, 3, 4, 8}) {
      for (int microbatches = 1; microbatches <= 4 * stages; ++microbatches) {
        SCOPED_TRACE(fmt::format("{} {} {}", row.name, stages, microbatches));
        const Made made = make(row.name, stages, microbatches);
        verify(made.pipeline, made.schedule, made.limits);
        if (microbatches >= stages) {
          EXPECT_EQ(made.makespan(), row.makespan(stages, microbatches));
        }
        for (int stage = 0; stage < stages; ++stage) {
          const DeviceRun& run = made.simulation.devices[static_cast<size_t>(stage)];
          EXPECT_EQ(run.live, row.live(stages, microbatches, stage));
          if (row.name == "zb-h1") {
            EXPECT_LE(run.held, stages);
          }
        }
      }
    }
  }
}

TEST(NamedSchedules, HaveTheFiguresOfTheDesign) {
  struct Figure {
    std::string name;
    double makespan;
    double idle;  // of every device within its span
  };
  for (const Figure& figure :
       {Figure{"gpipe", 33, 9}, {"1f1b", 33, 9}, {"interleaved", 28.5, 4.5}, {"zb-h1", 27, 3}}) {
    SCOPED_TRACE(figure.name);
    const Made made = make(figure.name, 4, 8);
    EXPECT_EQ(made.makespan(), figure.makespan);
    double most = 0;
    for (const DeviceRun& run : made.simulation.devices) {
      EXPECT_EQ(exact_seconds(made.simulation.makespan - run.work), figure.makespan - 24);
      most = std::max(most, exact_seconds(run.span() - run.work));
    }
    EXPECT_EQ(most, figure.idle);
  }
}

TEST(NamedSchedules, InterleavedDividesTheIdleTimeByItsRows) {
  for (const int devices : {2, 4, 8}) {
    for (const int rows : {2, 3, 4}) {
      const int microbatches = 2 * devices;
      SCOPED_TRACE(fmt::format("{} {}", devices, rows));
      const Made made = make("interleaved", devices, microbatches, {12e6, 12e6, 12e6}, rows);
      EXPECT_EQ(made.makespan(), 36.0 * microbatches + 36.0 * (devices - 1) / rows);
    }
  }
}

TEST(NamedSchedules, KMultipliesTheLiveMicrobatches) {
  for (const int k : {1, 2, 3}) {
    const Made made = make("kfkb", 4, 12, {}, 0, std::nullopt, k);
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(made.simulation.devices[static_cast<size_t>(stage)].live,
                std::min(12, k * (4 - stage)));
    }
  }
}

// A move takes 1.5 passes. Two microbatches in turn hide it.
TEST(NamedSchedules, MoreLiveMicrobatchesHideMoves) {
  const DeviceTimes slow = {1e6, 1e6, 1e6, 1.5e6};
  const double least = make("gpipe", 4, 16, slow).makespan();
  EXPECT_GT(make("1f1b", 4, 16, slow).makespan(), make("kfkb", 4, 16, slow).makespan());
  EXPECT_EQ(make("kfkb", 4, 16, slow).makespan(), least);
}

TEST(NamedSchedules, LiveScalesTheLimits) {
  const NamedSchedule& named = *find_schedule("1f1b");
  ScheduleRequest request{
      .chunks = 8, .devices = std::nullopt, .microbatches = 24, .k = 2, .live = 12};
  const Pipeline pipeline = named_pipeline(named, request);
  const std::vector<Limits> limits = named_limits(named, pipeline, request);
  EXPECT_EQ(limits[0].live, 12);
  EXPECT_EQ(limits[1].live, 11);
  EXPECT_EQ(limits[7].live, 2);
  const Times times = times_of(pipeline, kMeasured);
  const Schedule schedule = make_schedule(named, pipeline, limits, times);
  const Simulation simulation = simulate(pipeline, schedule, times);
  EXPECT_EQ(simulation.makespan, lower_bound(pipeline, schedule, times));
  EXPECT_EQ(simulation.devices[0].live, 12);

  const NamedSchedule& half = *find_schedule("v-half");
  const ScheduleRequest less{.chunks = 8, .microbatches = 8, .live = 5};
  for (const Limits& limit : named_limits(half, named_pipeline(half, less), less)) {
    EXPECT_EQ(limit.live, 5);
    EXPECT_EQ(limit.held, 5);
  }
}

TEST(NamedSchedules, SurviveARoundTripThroughCsv) {
  for (const NamedSchedule& named : named_schedules()) {
    for (const auto& [devices, microbatches] : {std::pair(2, 3), {3, 1}, {4, 9}}) {
      SCOPED_TRACE(fmt::format("{} {} {}", named.name, devices, microbatches));
      const Made made = make(named.name, devices, microbatches);
      const std::string text = write_csv(made.pipeline, made.schedule);
      const ReadSchedule read = read_csv(text, made.pipeline.chunks(), microbatches);
      EXPECT_EQ(read.schedule, made.schedule);
      EXPECT_EQ(read.pipeline.device_of, made.pipeline.device_of);
      EXPECT_EQ(write_csv(read.pipeline, read.schedule), text);
    }
  }
}

TEST(NamedSchedules, RefuseOtherNumbersOfStages) {
  struct Row {
    std::string name;
    ScheduleRequest request;
    std::string message;
  };
  for (const Row& row :
       {Row{"zb-v",
            {.chunks = 5},
            "zb-v has 2 stages per device, so --stages must be a multiple of 2"},
        {"1f1b",
         {.chunks = 8, .devices = 4},
         "1f1b has one stage per device: 8 stages do not lie on 4 devices"},
        {"v-min",
         {.chunks = 12, .devices = 4},
         "v-min has 2 stages per device: 12 stages do not lie on 4 devices"},
        {"interleaved",
         {.chunks = 10, .devices = 4},
         "interleaved has equally many stages per device: 10 stages do not lie on 4 devices"}}) {
    try {
      named_pipeline(*find_schedule(row.name), row.request);
      ADD_FAILURE() << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), row.message);
      EXPECT_EQ(error.code(), ExitCode::usage);
    }
  }
}

TEST(NamedSchedules, SayThatTheyDoNotFit) {
  const NamedSchedule& named = *find_schedule("interleaved");
  const ScheduleRequest request{.chunks = 8, .microbatches = 8, .live = 1};
  const Pipeline pipeline = named_pipeline(named, request);
  try {
    make_schedule(named, pipeline, named_limits(named, pipeline, request), times_of(pipeline, {}));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "interleaved does not fit in 1 live microbatches per device: give --live more");
  }
}

}  // namespace
}  // namespace hidup::pipeline
