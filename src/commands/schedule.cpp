// hidup schedule: shows a pipeline schedule, its times, and what it keeps, without a model.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "core/check.h"
#include "core/file.h"
#include "core/new_file.h"
#include "core/results.h"
#include "core/text.h"
#include "core/units.h"
#include "io/output_path.h"
#include "schedule/csv.h"
#include "schedule/lanes.h"
#include "schedule/named.h"
#include "schedule/simulate.h"
#include "schedule/verify.h"

namespace hidup {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostCells = 200'000;  // stages x microbatches
constexpr double kLongest = 1e9;         // seconds, all tasks together
constexpr int kWidth = 100;              // characters of a line that is not for a terminal

Nanoseconds parse_time(const std::string& option, std::string_view text) {
  const std::optional<double> seconds = parse_quantity(text, Unit::seconds);
  if (!seconds || *seconds > kLongest) {
    fail(ExitCode::usage, "{}: expected {}, found {}", option, describe(Unit::seconds),
         text.empty() ? "nothing" : shown(text));
  }
  return nanoseconds(*seconds);
}

// Reads times with commas between them.
std::vector<Nanoseconds> parse_times(const std::string& option, std::string_view text, size_t count,
                                     std::string_view of_what) {
  std::vector<Nanoseconds> times;
  for (const std::string_view time : split(text, ',')) {
    times.push_back(parse_time(option, time));
  }
  if (times.size() != count) {
    fail(ExitCode::usage, "{}: expected {} times, {}, found {}", option, count, of_what,
         times.size());
  }
  return times;
}

pipeline::Times times_of(const ScheduleOptions& options) {
  const auto stages = static_cast<size_t>(options.stages);
  const std::vector<Nanoseconds> same =
      parse_times("--times", options.times, 3, "of a forward, backward and weights pass");
  const auto of_stages = [&](const std::string& option, const std::string& list, size_t pass) {
    return list.empty() ? std::vector<Nanoseconds>(stages, same[pass])
                        : parse_times(option, list, stages, "one per stage");
  };
  pipeline::Times times{.forward = of_stages("--forward", options.forward, 0),
                        .backward = of_stages("--backward", options.backward, 1),
                        .weights = of_stages("--weights", options.weights, 2),
                        .move = parse_time("--move", options.move),
                        .moves_hold = options.moves_hold};
  double all = 2.0 * static_cast<double>(stages) * to_seconds(times.move);
  if (!options.pair.empty()) {
    times.pair = parse_time("--pair", options.pair);
    all += static_cast<double>(stages) * to_seconds(*times.pair);
  }
  for (const auto* list : {&times.forward, &times.backward, &times.weights}) {
    for (const Nanoseconds time : *list) {
      all += to_seconds(time);
    }
  }
  if (all * static_cast<double>(options.microbatches) > kLongest) {
    fail(ExitCode::usage, "the times of all tasks add up to more than {:g} s", kLongest);
  }
  return times;
}

pipeline::ReadSchedule read_file(const ScheduleOptions& options) {
  const std::string text = read_text_file(options.schedule, "schedule");
  try {
    pipeline::ReadSchedule read = pipeline::read_csv(text, static_cast<int>(options.stages),
                                                     static_cast<int>(options.microbatches));
    if (options.devices && *options.devices != read.pipeline.devices) {
      fail(ExitCode::usage, "--devices is {}, but there are {} rows", *options.devices,
           read.pipeline.devices);
    }
    if (options.live) {
      const pipeline::Limits limits{.live = static_cast<int>(*options.live)};
      verify(read.pipeline, read.schedule,
             std::vector(static_cast<size_t>(read.pipeline.devices), limits));
    }
    return read;
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", options.schedule, error.what());
  }
}

pipeline::ReadSchedule make_named(const ScheduleOptions& options, const pipeline::Times& times) {
  const pipeline::NamedSchedule* named = pipeline::find_schedule(options.schedule);
  if (named == nullptr) {
    fail(ExitCode::usage, "unknown schedule {}{}. Known are {}, and files that end in .csv",
         shown(options.schedule), pipeline::schedule_hint(options.schedule),
         pipeline::schedule_names());
  }
  if (options.k && !named->takes_k) {
    fail(ExitCode::usage, "--k is for kfkb, not for {}", named->name);
  }
  pipeline::ScheduleRequest request{.chunks = static_cast<int>(options.stages),
                                    .microbatches = static_cast<int>(options.microbatches)};
  request.k = static_cast<int>(options.k.value_or(request.k));
  if (options.devices) {
    request.devices = static_cast<int>(*options.devices);
  }
  if (options.live) {
    request.live = static_cast<int>(*options.live);
  }
  pipeline::ReadSchedule made{.pipeline = named_pipeline(*named, request)};
  const std::vector<pipeline::Limits> limits = named_limits(*named, made.pipeline, request);
  made.schedule = make_schedule(*named, made.pipeline, limits, times);
  verify(made.pipeline, made.schedule, limits);
  return made;
}

// All that the command prints.
struct ScheduleReport {
  pipeline::ReadSchedule read;
  pipeline::Simulation simulation;
  Nanoseconds lower_bound = 0;
  bool split = false;
};

// Unlike to_seconds() this returns whole seconds exactly.
double exact_seconds(Nanoseconds time) {
  return static_cast<double>(time) / 1e9;
}

Json slots_json(const ScheduleReport& report) {
  const pipeline::Split split(report.read.pipeline, report.read.schedule);
  Json devices = Json::array();
  for (size_t device = 0; device < report.read.schedule.size(); ++device) {
    Json slots = Json::array();
    for (size_t i = 0; i < report.read.schedule[device].size(); ++i) {
      const pipeline::Ran& ran = report.simulation.devices[device].slots[i];
      Json tasks = Json::array();
      for (const pipeline::Task& task : report.read.schedule[device][i].tasks) {
        tasks.push_back(cell_of(task, split(task)));
      }
      if (!tasks.empty()) {
        slots.push_back({{"tasks", tasks},
                         {"start_s", exact_seconds(ran.start)},
                         {"end_s", exact_seconds(ran.end)}});
      }
    }
    devices.push_back(slots);
  }
  return devices;
}

void print_json(const ScheduleReport& report) {
  Json json = {{"makespan_s", exact_seconds(report.simulation.makespan)},
               {"lower_bound_s", exact_seconds(report.lower_bound)},
               {"devices", report.read.pipeline.devices},
               {"split", report.split}};
  for (const pipeline::DeviceRun& run : report.simulation.devices) {
    json["idle_s"].push_back(exact_seconds(report.simulation.makespan - run.work));
    json["idle_in_span_s"].push_back(exact_seconds(run.span() - run.work));
    json["live"].push_back(run.live);
    json["pending_weights"].push_back(run.pending);
  }
  json["slots"] = slots_json(report);
  results::print("{}\n", json.dump(2));
}

int terminal_width() {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) == 1 &&
                     ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20;
  return known ? size.ws_col : kWidth;
}

void print_text(const ScheduleOptions& options, const ScheduleReport& report) {
  const pipeline::Pipeline& pipeline = report.read.pipeline;
  const Nanoseconds makespan = report.simulation.makespan;
  results::print("{}: {} stages on {} devices, {} microbatches\n\n", options.schedule,
                 pipeline.chunks(), pipeline.devices, pipeline.microbatches);
  results::print("{}",
                 draw_lanes(pipeline, report.read.schedule, report.simulation, terminal_width()));
  results::print("\nmakespan     {}\n", format_seconds(to_seconds(makespan)));
  results::print("lower bound  {}, for any order of these tasks\n",
                 format_seconds(to_seconds(report.lower_bound)));
  results::print("\ndevice      work      idle  idle in its span  live  pending weights\n");
  for (size_t device = 0; device < report.simulation.devices.size(); ++device) {
    const pipeline::DeviceRun& run = report.simulation.devices[device];
    results::print("{:>6} {:>9} {:>9} {:>17} {:>5} {:>16}\n", device,
                   format_seconds(to_seconds(run.work)),
                   format_seconds(to_seconds(makespan - run.work)),
                   format_seconds(to_seconds(run.span() - run.work)), run.live, run.pending);
  }
}

}  // namespace

int schedule(const ScheduleOptions& options) {
  if (options.stages * options.microbatches > kMostCells) {
    fail(ExitCode::usage, "{} stages x {} microbatches are more than {}", options.stages,
         options.microbatches, kMostCells);
  }
  const bool is_file = options.schedule.ends_with(".csv");
  prepare_outputs({{"--out", options.out}},
                  {{"the schedule", is_file ? options.schedule : std::string()}},
                  options.overwrite);
  const pipeline::Times times = times_of(options);
  ScheduleReport report{.read = is_file ? read_file(options) : make_named(options, times)};
  const pipeline::Pipeline& pipeline = report.read.pipeline;
  const pipeline::Schedule& schedule = report.read.schedule;
  report.simulation = simulate(pipeline, schedule, times);
  report.lower_bound = lower_bound(pipeline, schedule, times);
  report.split = pipeline::Split(pipeline, schedule).any();
  if (options.json) {
    print_json(report);
  } else {
    print_text(options, report);
  }
  if (!options.out.empty()) {
    write_text_file(options.out, write_csv(pipeline, schedule), options.overwrite);
  }
  return 0;
}

}  // namespace hidup
