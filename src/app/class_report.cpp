#include "app/class_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "app/costs.h"
#include "core/text.h"
#include "core/units.h"
#include "cost/duration.h"
#include "deck/cluster_deck.h"
#include "deck/device_classes.h"
#include "program/work.h"

namespace hidup {
namespace {

double seconds_of(const Program& program, const RankCosts& costs, int64_t rank) {
  double sum = 0.0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.stream == StreamKind::compute) {
      sum += duration_of(program, costs.of(rank), instruction, rank).alone_s;
    }
  }
  return sum;
}

// Ranks with the same parts and the same costs compute alike.
class Computations {
 public:
  Computations(const Program& program, const RankCosts& costs)
      : program_(program), costs_(costs), alike_(alike_ranks(program)) {}

  // Returns the seconds in which the rank computes in a step.
  double of(int64_t rank) {
    const auto [known, is_new] =
        known_.try_emplace({alike_[static_cast<size_t>(rank)], costs_.class_of(rank)});
    if (is_new) {
      known->second = seconds_of(program_, costs_, rank);
    }
    return known->second;
  }

 private:
  const Program& program_;
  const RankCosts& costs_;
  std::vector<int64_t> alike_;
  std::map<std::pair<int64_t, size_t>, double> known_;
};

}  // namespace

std::vector<double> parts_of_work(const Program& program) {
  const std::vector<int64_t> alike = alike_ranks(program);
  std::vector<double> work;
  for (size_t rank = 0; rank < alike.size(); ++rank) {
    const auto like = static_cast<size_t>(alike[rank]);
    double& flops = work.emplace_back(like < rank ? work[like] : 0.0);
    for (size_t i = 0; like == rank && i < program.instructions.size(); ++i) {
      flops += work_of(program, program.instructions[i], alike[rank]).flops;
    }
  }
  const double all = std::reduce(work.begin(), work.end());
  std::ranges::transform(work, work.begin(), [all](double flops) { return flops / all; });
  return work;
}

std::vector<ClassReport> report_classes(const Deck& deck, const Forecast& step,
                                        const RankCosts& costs) {
  std::vector<ClassReport> classes(deck.cluster->devices.size());
  if (classes.empty()) {
    return classes;
  }
  const int64_t ranks = ranks_of(step.program.mesh);
  const std::vector<size_t> items = classes_of_ranks(*deck.cluster, ranks);
  const std::vector<double> rated = rated_flops_of_ranks(deck, ranks);
  const std::vector<int64_t> bytes = bytes_of_ranks(step.program);
  Computations computations(step.program, costs);
  const std::vector<double> work = parts_of_work(step.program);
  for (size_t rank = 0; rank < items.size(); ++rank) {
    ClassReport& report = classes[items[rank]];
    report.ranks.push_back(static_cast<int>(rank));
    report.flops = rated[rank];
    report.work_part += work[rank];
    report.compute_s = std::max(report.compute_s, computations.of(static_cast<int64_t>(rank)));
    report.wait_s = std::max(0.0, step.seconds() - report.compute_s);
    report.bytes = std::max(report.bytes, bytes[rank]);
  }
  const std::vector<DeviceClass> devices = device_classes(*deck.cluster);
  for (size_t item = 0; item < classes.size(); ++item) {
    classes[item].limit_bytes = devices[item].memory.value_or(0);
  }
  return classes;
}

std::string describe(const std::vector<ClassReport>& classes) {
  std::vector<std::string> names;
  size_t width = 0;
  for (const ClassReport& report : classes) {
    names.push_back(format_ranks(report.ranks));
    if (report.flops > 0.0) {
      names.back() += fmt::format(", {:.4g} TFLOPS", 1e-12 * report.flops);
    }
    width = std::max(width, names.back().size());
  }
  std::string text =
      classes.empty() ? "" : "\nclasses of devices: part of the flops, a rank's step and memory\n";
  for (size_t i = 0; i < classes.size(); ++i) {
    const ClassReport& report = classes[i];
    text += fmt::format("  {:<{}}  {:>5.1f} %  computes {:>9}, waits {:>9}, holds {:>10}{}\n",
                        names[i], width, 100.0 * report.work_part, format_seconds(report.compute_s),
                        format_seconds(report.wait_s), format_bytes(report.bytes),
                        report.limit_bytes > 0 ? " of " + format_bytes(report.limit_bytes) : "");
  }
  return text;
}

}  // namespace hidup
