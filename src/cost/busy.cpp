#include "cost/busy.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hidup {

std::vector<double> exposed_times(const Program& program, std::span<const Interval> times) {
  // The instructions of a stream do not overlap and are in the order of time.
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

double overlap_ratio(const BusyTimes& busy) {
  return busy.comm_s > 0.0 ? (busy.comm_s - busy.exposed_comm_s) / busy.comm_s : 0.0;
}

void RunBusyTimes::add(std::span<const BusyTimes> ranks) {
  if (ranks.empty() || std::isnan(ranks[0].compute_s)) {
    return;
  }
  if (steps_ == 1 && std::exchange(first_counts_, false)) {
    sums_.clear();
    steps_ = 0;
  }
  ++steps_;
  sums_.resize(ranks.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    sums_[rank].compute_s += ranks[rank].compute_s;
    sums_[rank].comm_s += ranks[rank].comm_s;
    sums_[rank].exposed_comm_s += ranks[rank].exposed_comm_s;
  }
}

size_t RunBusyTimes::busiest() const {
  const auto longest = std::ranges::max_element(sums_, {}, &BusyTimes::compute_s);
  return sums_.empty() ? 0 : static_cast<size_t>(longest - sums_.begin());
}

BusyTimes RunBusyTimes::mean() const {
  if (sums_.empty()) {
    return {};
  }
  const BusyTimes& sum = sums_[busiest()];
  const auto steps = static_cast<double>(steps_);
  return {sum.compute_s / steps, sum.comm_s / steps, sum.exposed_comm_s / steps};
}

}  // namespace hidup
