// How long a rank's streams were busy in a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"

namespace hidup {

// When an instruction ran, or is predicted to.
struct Interval {
  double start_s = 0.0;
  double end_s = 0.0;
};

struct BusyTimes {
  double compute_s = 0.0;
  double comm_s = 0.0;
  double exposed_comm_s = 0.0;  // only communication ran
};

// `times`: of every instruction of the program, in its order.
// Of each, the time in which only it ran if it communicates; 0 for those that compute.
std::vector<double> exposed_times(const Program& program, std::span<const Interval> times);
BusyTimes busy_times(const Program& program, std::span<const Interval> times);

// The part of communication time that computation hides, over all communication time: 1 where all
// of it is hidden, 0 where nothing is, or nothing was sent. analysis/hidup_timings.py has the same.
double overlap_ratio(const BusyTimes& busy);

// A run's busy times in one number each: means of the steps that have times, of the rank that
// computed longest in them. The first one prepares much, and counts only where it is alone.
// analysis/facts.py finds the same in a timing file.
class RunBusyTimes {
 public:
  // Of all ranks in the next step; NaN where the step has no times.
  void add(std::span<const BusyTimes> ranks);
  // The rank; 0 before the first step.
  size_t busiest() const;
  BusyTimes mean() const;

 private:
  std::vector<BusyTimes> sums_;  // by rank
  int64_t steps_ = 0;            // that count
  bool first_counts_ = true;
};

}  // namespace hidup
