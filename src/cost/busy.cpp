#include "cost/busy.h"

#include <algorithm>

namespace hidup {

std::vector<double> exposed_times(const Program& program, std::span<const Interval> times) {
  // A stream's instructions do not overlap each other and are in the order of time.
  std::vector<Interval> compute;
  for (size_t i = 0; i < times.size(); ++i) {
    if (program.instructions[i].stream == StreamKind::compute) {
      compute.push_back(times[i]);
    }
  }
  std::vector<double> exposed(times.size(), 0.0);
  auto first = compute.begin();
  for (size_t i = 0; i < times.size(); ++i) {
    if (program.instructions[i].stream != StreamKind::comm) {
      continue;
    }
    const Interval& message = times[i];
    exposed[i] = message.end_s - message.start_s;
    while (first != compute.end() && first->end_s <= message.start_s) {
      ++first;
    }
    for (auto other = first; other != compute.end() && other->start_s < message.end_s; ++other) {
      exposed[i] -=
          std::min(other->end_s, message.end_s) - std::max(other->start_s, message.start_s);
    }
  }
  return exposed;
}

BusyTimes busy_times(const Program& program, std::span<const Interval> times) {
  BusyTimes busy;
  const std::vector<double> exposed = exposed_times(program, times);
  for (size_t i = 0; i < times.size(); ++i) {
    const bool computes = program.instructions[i].stream == StreamKind::compute;
    (computes ? busy.compute_s : busy.comm_s) += times[i].end_s - times[i].start_s;
    busy.exposed_comm_s += exposed[i];
  }
  busy.exposed_comm_s = std::max(busy.exposed_comm_s, 0.0);
  return busy;
}

double overlap_ratio(const BusyTimes& busy, double wall_s) {
  const double shorter = std::min(busy.compute_s, busy.comm_s);
  // The wall has idle time as well: where that outweighs what is hidden the quotient is below 0.
  return shorter > 0.0 ? std::max(0.0, (busy.compute_s + busy.comm_s - wall_s) / shorter) : 0.0;
}

}  // namespace hidup
