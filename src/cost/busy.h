// The time that a rank's streams are busy in a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"

namespace hidup {

// The measured or predicted time of an instruction.
struct Interval {
  double start_s = 0.0;
  double end_s = 0.0;
};

struct BusyTimes {
  double compute_s = 0.0;
  double comm_s = 0.0;          // time in which some stream communicated
  double exposed_comm_s = 0.0;  // time in which only communication ran
  // The rest of the time from the step's start to the rank's last end, without computation and
  // without exposed communication inside of the rank's stage: the bubble of a pipeline.
  double idle_s = 0.0;
};

// `times`: one interval per instruction of the program, in its order. Returns for every
// communication the time in which nothing computed, and 0 for instructions that compute.
std::vector<double> exposed_times(const Program& program, std::span<const Interval> times);
BusyTimes busy_times(const Program& program, std::span<const Interval> times);

// Returns the part of communication time that computation hides, over all communication time: from
// 0 (nothing hidden, or nothing sent) to 1. analysis/busy.py computes the same.
double overlap_ratio(const BusyTimes& busy);

// Sums up a run: mean busy times, over the steps with times, of the rank that computes longest in
// them. The first such step also sets things up, so it counts only if it is the only one.
// analysis/facts.py finds the same in a timing file.
class RunBusyTimes {
 public:
  // Adds the busy times of all ranks in the next step. Ignores a step whose times are NaN.
  void add(std::span<const BusyTimes> ranks);
  // Returns the rank that computes longest; 0 before the first step.
  size_t busiest() const;
  BusyTimes mean() const;
  // Returns the mean idle time of all ranks.
  double mean_idle() const;

 private:
  std::vector<BusyTimes> sums_;  // by rank
  int64_t steps_ = 0;            // the number of steps in sums_
  bool first_counts_ = true;
};

}  // namespace hidup
