// A lower bound of the time of a step over all orders of instructions on its streams.
#pragma once

#include <span>

#include "cost/play.h"
#include "program/program.h"

namespace hidup {

// A job of a machine that runs one job at a time. The job starts at `head` or later, and its `tail`
// follows its end, off the machine.
struct Job {
  int64_t head = 0;
  int64_t length = 0;
  int64_t tail = 0;
};

// Returns the maximum over all sets of jobs of (least head + sum of the lengths + least tail). It
// equals the end of the last tail under Jackson's preemptive schedule, which always runs the
// available job with the longest tail (J. Carlier, The one-machine sequencing problem, EJOR 11,
// 1982). Returns 0 without jobs. O(n log n).
int64_t one_machine_floor(std::span<const Job> jobs);

// Returns a lower bound of PlayedStep::end for a step that starts at 0. It holds for any order of
// the instructions on their streams, and for any waits that keep the order of accesses to data. The
// bound is the maximum of one_machine_floor() over the streams of all ranks. Heads and tails are
// longest paths along accesses to values: a read follows the write before it, a write follows both,
// and additions to a sum follow each other in any order. The ranks of a collective start it
// together. Where links vary, the least durations count.
Nanoseconds dependency_floor(const Program& program, const Durations& durations);

}  // namespace hidup
