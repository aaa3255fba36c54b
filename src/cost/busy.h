// How long a rank's streams were busy in a step.
#pragma once

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

// (compute + communication - wall) / the shorter of the two (HiDup, SoCC'22): 1 where the shorter
// one is hidden wholly, 0 where nothing is. 0 where a stream was never busy.
double overlap_ratio(const BusyTimes& busy, double wall_s);

}  // namespace hidup
