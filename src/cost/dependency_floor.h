// The least time of a step, in whatever order its streams run their instructions.
#pragma once

#include <span>

#include "cost/play.h"
#include "program/program.h"

namespace hidup {

// A job of a machine that does one at a time: it starts after `head` at the earliest, and `tail`
// passes behind its end.
struct Job {
  int64_t head = 0;
  int64_t length = 0;
  int64_t tail = 0;
};

// The maximum over all sets of the jobs of (least head + sum of the lengths + least tail), which
// is the end of the last tail under Jackson's preemptive schedule: of the jobs that are there, the
// one with the longest tail runs (J. Carlier, The one-machine sequencing problem, EJOR 11, 1982).
// 0 without jobs. O(n log n).
int64_t one_machine_floor(std::span<const Job> jobs);

// A lower bound for PlayedStep::end of a step that starts at 0, for any order of the instructions
// on their streams and any waits that keep the order of accesses to data: the maximum of
// one_machine_floor() over the streams of all ranks. Heads and tails are longest paths along the
// accesses to values: who reads comes after who wrote, who writes after both; who adds to a sum
// comes in any order among others that do. The ranks of a collective start it together. Durations
// are the least ones where links vary.
Nanoseconds dependency_floor(const Program& program, const Durations& durations);

}  // namespace hidup
