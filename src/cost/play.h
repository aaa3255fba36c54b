// The exact times of a step, in whole nanoseconds, of all ranks: what an emulated run has to give.
//
// Streams do not slow each other. With costs that say the same, simulate() gives these times up to
// rounding; it plays distinct ranks only, but takes streams that slow each other.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/bandwidth_trace.h"
#include "cost/rank_costs.h"
#include "program/program.h"

namespace hidup {

// What every instruction takes on every rank. For few ranks: it keeps a number for each instruction
// of each.
class Durations {
 public:
  // `links`: per axis of the mesh; none: no link varies in time. Durations are rounded to the
  // nearest nanosecond. Of a collective, that of the slowest rank of its group holds for all of it.
  // Throws Error(usage) where a step takes longer than 1e9 s.
  Durations(const Program& program, const RankCosts& costs,
            const std::vector<BandwidthTrace>& links = {});

  // The end, since the run's start, of the instruction that starts then on this rank; a collective
  // starts on all ranks of its group together. Where the link varies, the time of the smallest
  // message and of packing passes first, then the bytes at the link's pace.
  Nanoseconds end_of(int instruction, int64_t rank, Nanoseconds start) const;
  // The least that it can take, whenever it starts.
  Nanoseconds least(int instruction, int64_t rank) const;

  // The ranks that start the instruction together: this one alone if it is no collective, or if the
  // rank skips it.
  const std::vector<int64_t>& group(int instruction, int64_t rank) const;

  int64_t ranks() const { return static_cast<int64_t>(times_.size()); }
  Nanoseconds launch() const { return launch_; }      // between two instructions of a stream
  Nanoseconds signal() const { return signal_; }      // from an end to what waits for it
  Nanoseconds overhead() const { return overhead_; }  // of a step, outside the program

 private:
  struct Time {
    Nanoseconds fixed = 0;
    Nanoseconds sending = 0;  // at the link's nominal bandwidth
    int link = -1;            // whose pace that follows; -1: none that varies
    int group = -1;           // in groups_; -1: the rank alone
  };
  const Time& time(int instruction, int64_t rank) const {
    return times_[static_cast<size_t>(rank)][static_cast<size_t>(instruction)];
  }
  void add_rank(const Program& program, const RankCosts& costs, int64_t rank);
  void join_groups(const Program& program);
  void join(size_t instruction, int number);

  std::vector<BandwidthTrace> links_;
  std::vector<std::vector<Time>> times_;      // [rank][instruction]
  std::vector<std::vector<int64_t>> groups_;  // of ranks
  std::vector<std::vector<int64_t>> alone_;   // [rank]
  Nanoseconds launch_, signal_, overhead_;
};

struct PlayedInstruction {
  Nanoseconds start = 0;
  Nanoseconds end = 0;

  friend bool operator==(const PlayedInstruction&, const PlayedInstruction&) = default;
};

struct PlayedStep {
  std::vector<std::vector<PlayedInstruction>> ranks;  // [rank][instruction]
  Nanoseconds end = 0;                                // of the last instruction on any rank
};

// The step that starts then, since the run's start. An instruction starts when the one before it on
// its stream has ended and been followed by launch(), and what it waits for has ended and been
// followed by signal(); a collective when that holds on all ranks of its group. The first
// instruction of a stream starts with the step.
PlayedStep play(const Program& program, const Durations& durations, Nanoseconds start = 0);

}  // namespace hidup
