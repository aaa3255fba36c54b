#include "app/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/check.h"
#include "core/median.h"
#include "core/name_pattern.h"
#include "runtime/profiler.h"

namespace hidup {
namespace {

// Returns the seconds of an instruction in a step, as in compare_with_prediction(). Ranks that skip
// the instruction have a row without length.
double seconds_of(const MeasuredSteps& steps, size_t step, size_t ranks, size_t instruction,
                  bool collective) {
  double longest = 0.0;
  double last_start = -std::numeric_limits<double>::infinity();
  double last_end = last_start;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const TimelineRow& row = steps.at(step, rank, instruction);
    if (row.end_s <= row.start_s) {
      continue;
    }
    longest = std::max(longest, row.end_s - row.start_s);
    last_start = std::max(last_start, row.start_s);
    last_end = std::max(last_end, row.end_s);
  }
  return collective && longest > 0.0 ? last_end - last_start : longest;
}

std::vector<MeasuredRow> rows_of(const TimingRecord& record, const MeasuredSteps& steps) {
  const auto ranks = static_cast<size_t>(record.header.run.world_size);
  const std::vector<ProgramRow>& program = record.header.program.rows;
  std::map<std::pair<std::string, std::string>, MeasuredRow> rows;
  for (size_t i = 0; i < program.size(); ++i) {
    const bool collective = !program[i].collective.empty();
    std::vector<double> seconds;
    for (size_t step = 0; step < steps.count(); ++step) {
      seconds.push_back(seconds_of(steps, step, ranks, i, collective));
    }
    std::string name = pattern_of(program[i].name);
    std::string what = fmt::format("{} {}", program[i].phase,
                                   collective ? program[i].collective : program[i].kind);
    MeasuredRow& row = rows[{name, what}];
    row.name = std::move(name);
    row.what = std::move(what);
    ++row.count;
    row.predicted_s += record.header.prediction->length_s[i];
    row.measured_s += median(std::move(seconds));
  }
  std::vector<MeasuredRow> sorted;
  sorted.reserve(rows.size());
  for (auto& [key, row] : rows) {
    sorted.push_back(std::move(row));
  }
  std::ranges::stable_sort(sorted, std::greater(), [](const MeasuredRow& row) {
    return std::abs(row.measured_s - row.predicted_s);
  });
  return sorted;
}

BusyTimes measured_busy(const TimingRecord& record) {
  const auto ranks = static_cast<size_t>(record.header.run.world_size);
  RunBusyTimes busy;
  for (size_t first = 0; first < record.compute_s.size(); first += ranks) {
    std::vector<BusyTimes> step;
    for (size_t at = first; at < first + ranks; ++at) {
      step.push_back({record.compute_s[at], record.comm_s[at], record.exposed_comm_s[at]});
    }
    busy.add(step);
  }
  return busy.mean();
}

}  // namespace

MeasuredSteps::MeasuredSteps(const TimingRecord& record)
    : instructions_(record.header.program.rows.size()) {
  const size_t events = instructions_ * static_cast<size_t>(record.header.run.world_size);
  const std::span rows(record.timeline);
  for (size_t first = 0; first < rows.size(); first += events) {
    if (!record.steps.empty() && rows[first].step > record.steps.front()) {
      steps_.push_back(rows.subspan(first, events));
    }
  }
  if (steps_.empty()) {
    fail(ExitCode::file,
         "{}: has no timeline of a step after the run's first one, which prepares much: train for "
         "2 steps at least",
         record.path);
  }
}

MeasuredRun compare_with_prediction(const TimingRecord& record) {
  const std::optional<PredictionInfo>& prediction = record.header.prediction;
  if (!prediction) {
    fail(ExitCode::file,
         "{}: has no prediction: its run had no profile (cluster.profile), and its cluster deck no "
         "rates",
         record.path);
  }
  const MeasuredSteps steps(record);
  if (record.steps.size() < 2) {
    fail(ExitCode::file, "{}: has no second step", record.path);
  }
  MeasuredRun run{
      .rows = rows_of(record, steps),
      .predicted = {prediction->compute_s, prediction->comm_s, prediction->exposed_comm_s},
      .measured = measured_busy(record),
      .predicted_wall_s = prediction->iteration_s,
      .measured_wall_s = median({record.wall_s.begin() + 1, record.wall_s.end()})};
  for (size_t step = 0; step < steps.count(); ++step) {
    run.steps.push_back(steps.number(step));
  }
  return run;
}

}  // namespace hidup
