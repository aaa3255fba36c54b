// Shared by the tests of schedules.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "schedule/named.h"
#include "schedule/simulate.h"

namespace hidup::pipeline {

// Microseconds of all chunks of a device together, and of a move.
struct DeviceTimes {
  double forward = 1e6;
  double backward = 1e6;
  double weights = 1e6;
  double move = 0.0;
};

// The times in which others give the figures of their schedulers.
inline constexpr DeviceTimes kMeasured = {18522, 18086, 9337, 601};

// Returns whole seconds exactly, as to_seconds() does not.
inline double exact_seconds(Nanoseconds time) {
  return static_cast<double>(time) / 1e9;
}

inline Times times_of(const Pipeline& pipeline, const DeviceTimes& times) {
  const double rows = static_cast<double>(pipeline.chunks()) / pipeline.devices;
  const auto all = [&](double time) {
    return std::vector<Nanoseconds>(pipeline.device_of.size(), nanoseconds(1e-6 * time / rows));
  };
  return {.forward = all(times.forward),
          .backward = all(times.backward),
          .weights = all(times.weights),
          .move = nanoseconds(1e-6 * times.move),
          .pair = std::nullopt};
}

struct Made {
  Pipeline pipeline;
  std::vector<Limits> limits;
  Times times;
  Schedule schedule;
  Simulation simulation;

  double makespan() const { return exact_seconds(simulation.makespan); }
  double lower_bound() const {
    return exact_seconds(pipeline::lower_bound(pipeline, schedule, times));
  }
  // Returns the idle part of the device's span whose span is the longest.
  double bubble() const {
    const DeviceRun& longest = *std::ranges::max_element(
        simulation.devices, {}, [](const DeviceRun& run) { return run.span(); });
    return 1.0 - static_cast<double>(longest.work) / static_cast<double>(longest.span());
  }
};

// Makes a named schedule on so many devices.
inline Made make(std::string_view name, int devices, int microbatches,
                 const DeviceTimes& device_times = {}, int rows = 0,
                 std::optional<Nanoseconds> pair = std::nullopt, int k = 2) {
  const NamedSchedule* named = find_schedule(name);
  check(named != nullptr, "no schedule {}", name);
  const ScheduleRequest request{.chunks = devices * (rows > 0 ? rows : named->chunks_per_device),
                                .devices = devices,
                                .microbatches = microbatches,
                                .k = k,
                                .live = std::nullopt};
  Made made;
  made.pipeline = named_pipeline(*named, request);
  made.limits = named_limits(*named, made.pipeline, request);
  made.times = times_of(made.pipeline, device_times);
  made.times.pair = pair;
  made.schedule = make_schedule(*named, made.pipeline, made.limits, made.times);
  made.simulation = simulate(made.pipeline, made.schedule, made.times);
  return made;
}

}  // namespace hidup::pipeline
