// hidup explain --measured: compares a run with its prediction.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "app/measured.h"
#include "app/plan_report.h"
#include "commands/commands.h"
#include "core/results.h"
#include "core/units.h"

namespace hidup {
namespace {

constexpr size_t kMostRows = 30;

std::string ratio_of(double predicted_s, double measured_s) {
  return predicted_s > 0.0 ? fmt::format("{:.2f}", measured_s / predicted_s) : "-";
}

std::string difference_of(double predicted_s, double measured_s) {
  const double difference = measured_s - predicted_s;
  return (difference < 0.0 ? "-" : "+") + format_seconds(std::abs(difference));
}

std::string times_text(double predicted_s, double measured_s) {
  return fmt::format("{:>10} {:>10} {:>11} {:>6}", format_seconds(predicted_s),
                     format_seconds(measured_s), difference_of(predicted_s, measured_s),
                     ratio_of(predicted_s, measured_s));
}

void print_rows(const std::vector<MeasuredRow>& rows) {
  const size_t shown = std::min(rows.size(), kMostRows);
  size_t name = std::string("operation").size();
  size_t what = 0;
  for (size_t i = 0; i < shown; ++i) {
    name = std::max(name, rows[i].name.size());
    what = std::max(what, rows[i].what.size());
  }
  const auto print_line = [&](const std::string& count, const std::string& first,
                              const std::string& second, const std::string& times) {
    results::print("{:>5}  {:<{}}  {:<{}}  {}\n", count, first, name, second, what, times);
  };
  print_line(
      "", "operation", "",
      fmt::format("{:>10} {:>10} {:>11} {:>6}", "predicted", "measured", "difference", "ratio"));
  MeasuredRow rest;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i < shown) {
      print_line(fmt::format("{}x", rows[i].count), rows[i].name, rows[i].what,
                 times_text(rows[i].predicted_s, rows[i].measured_s));
      continue;
    }
    rest.count += rows[i].count;
    rest.predicted_s += rows[i].predicted_s;
    rest.measured_s += rows[i].measured_s;
  }
  if (rest.count > 0) {
    print_line(fmt::format("{}x", rest.count), "all others", "",
               times_text(rest.predicted_s, rest.measured_s));
  }
}

void print_step(const MeasuredRun& run) {
  const auto print_line = [](const char* name, double predicted_s, double measured_s) {
    results::print("{:<22} {}\n", name, times_text(predicted_s, measured_s));
  };
  results::print("\n{:<22} {:>10} {:>10} {:>11} {:>6}\n", "whole step", "predicted", "measured",
                 "difference", "ratio");
  print_line("compute", run.predicted.compute_s, run.measured.compute_s);
  print_line("communication", run.predicted.comm_s, run.measured.comm_s);
  print_line("exposed communication", run.predicted.exposed_comm_s, run.measured.exposed_comm_s);
  print_line("wall", run.predicted_wall_s, run.measured_wall_s);
}

Json json_of(const BusyTimes& busy, double wall_s) {
  return {{"compute_s", busy.compute_s},
          {"comm_s", busy.comm_s},
          {"exposed_comm_s", busy.exposed_comm_s},
          {"wall_s", wall_s}};
}

Json json_of(const TimingRecord& record, const MeasuredRun& run) {
  Json operations = Json::array();
  for (const MeasuredRow& row : run.rows) {
    operations.push_back({{"name", row.name},
                          {"what", row.what},
                          {"count", row.count},
                          {"predicted_s", row.predicted_s},
                          {"measured_s", row.measured_s}});
  }
  return {{"file", record.path},
          {"model", record.header.run.model},
          {"ranks", record.header.run.world_size},
          {"strategy", record.header.strategy.name},
          {"steps", run.steps},
          {"operations", operations},
          {"step",
           {{"predicted", json_of(run.predicted, run.predicted_wall_s)},
            {"measured", json_of(run.measured, run.measured_wall_s)}}}};
}

}  // namespace

int explain_measured(const ExplainOptions& options) {
  const TimingRecord record = read_timing_file(options.measured);
  const MeasuredRun run = compare_with_prediction(record);
  if (options.json) {
    results::print("{}\n", json_of(record, run).dump(2));
    return 0;
  }
  results::print("{} on {} rank(s), strategy {}; medians of {} {}step(s)\n\n",
                 record.header.run.model, record.header.run.world_size, record.header.strategy.name,
                 run.steps.size(), record.header.emulation ? "emulated " : "");
  print_rows(run.rows);
  print_step(run);
  return 0;
}

}  // namespace hidup
