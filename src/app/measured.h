// A run's measured times beside those that were predicted for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/busy.h"
#include "io/timing_input.h"

namespace hidup {

// The steps of a timeline but for the first one of the run, which prepares much.
class MeasuredSteps {
 public:
  // The record outlives this. Throws Error(file) where there is no such step.
  explicit MeasuredSteps(const TimingRecord& record);

  size_t count() const { return steps_.size(); }
  int64_t number(size_t step) const { return steps_[step].front().step; }
  const TimelineRow& at(size_t step, size_t rank, size_t instruction) const {
    return steps_[step][rank * instructions_ + instruction];
  }

 private:
  size_t instructions_;
  std::vector<std::span<const TimelineRow>> steps_;  // [rank, instruction]
};

// Instructions of a step that differ in their microbatch and in the number of their layer only.
struct MeasuredRow {
  std::string name;  // "layers.*.ffn.up"
  std::string what;  // "forward compute", "backward all_reduce"
  int count = 0;
  double predicted_s = 0.0;  // of all together, as the next one
  double measured_s = 0.0;
};

struct MeasuredRun {
  std::vector<int64_t> steps;     // of the timeline, that count
  std::vector<MeasuredRow> rows;  // those farthest from their prediction first
  // Of a whole step, on the rank that is busiest with computation: RunBusyTimes.
  BusyTimes predicted, measured;
  double predicted_wall_s = 0.0, measured_wall_s = 0.0;
};

// Times are medians over the steps, but those of RunBusyTimes. An instruction takes as long as on
// the slowest rank; a collective from when the last rank begins it to when the last one ends it,
// because the wait for a late rank is not its time. Throws Error(file) where the file has no
// prediction or no second step.
MeasuredRun compare_with_prediction(const TimingRecord& record);

}  // namespace hidup
