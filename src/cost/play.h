// The exact times of a step on all ranks, in whole nanoseconds, for emulated runs to reproduce.
//
// Streams do not slow each other here. Where the costs have no slowdowns either, simulate() gives
// the same times up to rounding. It plays only distinct ranks, but knows slowdowns.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/bandwidth_trace.h"
#include "cost/rank_costs.h"
#include "program/program.h"

namespace hidup {

// The duration of every instruction on every rank. It stores a number for each instruction of each
// rank, so it suits few ranks only.
class Durations {
 public:
  // `links`: one per axis of the mesh; empty: no link varies over time. `paces`: one per rank;
  // empty: no device varies over time. Durations are rounded to the nearest nanosecond. A
  // collective takes as long as on the slowest rank of its group. Throws Error(usage) where a step
  // takes longer than 1e9 s.
  Durations(const Program& program, const RankCosts& costs,
            const std::vector<BandwidthTrace>& links = {},
            const std::vector<BandwidthTrace>& paces = {});

  // Returns the end, since the run's start, of an instruction that starts at `start` on this rank.
  // A collective starts on all ranks of its group together. Where the link varies, the time of the
  // smallest message and of packing passes first, then the bytes follow at the link's pace. Where
  // the device varies, all of a computation follows at its pace.
  Nanoseconds end_of(int instruction, int64_t rank, Nanoseconds start) const;
  // Returns the least duration over all starts.
  Nanoseconds least(int instruction, int64_t rank) const;

  // Tells which instructions the rank runs.
  const RankSteps& steps(int64_t rank) const { return steps_[static_cast<size_t>(rank)]; }
  // Returns the ranks that start the instruction together: only this rank where the instruction is
  // no collective.
  const std::vector<int64_t>& group(int instruction, int64_t rank) const;

  int64_t ranks() const { return static_cast<int64_t>(times_.size()); }
  Nanoseconds launch() const { return launch_; }  // between two instructions of a stream
  Nanoseconds signal() const { return signal_; }  // from an end to an instruction that waits for it
  Nanoseconds overhead() const { return overhead_; }  // of a step, outside the program

 private:
  struct Time {
    Nanoseconds fixed = 0;
    Nanoseconds varying = 0;  // time at the nominal bandwidth of the link, or pace of the device
    int trace = -1;           // index in traces_ of what sets the pace of `varying`; -1: nothing
    int group = -1;           // index in groups_; -1: the rank alone
  };
  const Time& time(int instruction, int64_t rank) const {
    return times_[static_cast<size_t>(rank)][static_cast<size_t>(instruction)];
  }
  void add_rank(const Program& program, const RankCosts& costs, int64_t rank);
  void join_groups(const Program& program);
  void join(size_t instruction, int number);

  // Returns the index in traces_ for the instruction on this rank; -1: nothing varies.
  int trace_of(const Instruction& instruction, int64_t rank) const;

  size_t links_;                              // number of links that vary, the first of traces_
  std::vector<BandwidthTrace> traces_;        // by axis, then by rank
  std::vector<RankSteps> steps_;              // [rank]
  std::vector<std::vector<Time>> times_;      // [rank][instruction]
  std::vector<std::vector<int64_t>> groups_;  // ranks of each group
  std::vector<std::vector<int64_t>> alone_;   // [rank]: a group of that rank alone
  Nanoseconds launch_, signal_, overhead_;
};

struct PlayedInstruction {
  Nanoseconds start = 0;
  Nanoseconds end = 0;

  friend bool operator==(const PlayedInstruction&, const PlayedInstruction&) = default;
};

struct PlayedStep {
  std::vector<std::vector<PlayedInstruction>> ranks;  // [rank][instruction]
  Nanoseconds end = 0;                                // the last end on any rank
};

// Plays the step that starts at `start` since the run's start. An instruction starts launch() after
// the end of the one before it on its stream, and signal() after the end of every instruction that
// it waits for. A collective starts when that holds on all ranks of its group. The first
// instruction of a stream starts with the step. An instruction that a rank skips takes no time,
// right after the end of the one before it on its stream.
PlayedStep play(const Program& program, const Durations& durations, Nanoseconds start = 0);

}  // namespace hidup
