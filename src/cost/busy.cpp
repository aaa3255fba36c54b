#include "cost/busy.h"

#include <algorithm>
#include <vector>

namespace hidup {

BusyTimes busy_times(const Program& program, std::span<const Interval> times) {
  // A stream's instructions do not overlap each other and are in the order of time.
  std::vector<Interval> compute;
  std::vector<Interval> comm;
  BusyTimes busy;
  for (size_t i = 0; i < times.size(); ++i) {
    const bool computes = program.instructions[i].stream == StreamKind::compute;
    (computes ? compute : comm).push_back(times[i]);
    (computes ? busy.compute_s : busy.comm_s) += times[i].end_s - times[i].start_s;
  }
  busy.exposed_comm_s = busy.comm_s;
  auto first = compute.begin();
  for (const Interval& message : comm) {
    while (first != compute.end() && first->end_s <= message.start_s) {
      ++first;
    }
    for (auto other = first; other != compute.end() && other->start_s < message.end_s; ++other) {
      busy.exposed_comm_s -=
          std::min(other->end_s, message.end_s) - std::max(other->start_s, message.start_s);
    }
  }
  busy.exposed_comm_s = std::max(busy.exposed_comm_s, 0.0);
  return busy;
}

}  // namespace hidup
