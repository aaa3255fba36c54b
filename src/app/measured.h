// Compares a run's measured times with the predicted ones.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/busy.h"
#include "io/timing_input.h"

namespace hidup {

// The steps of a timeline without the run's first one, which also sets things up.
class MeasuredSteps {
 public:
  // The record must outlive the object. Throws Error(file) where the record has no such step.
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

// Instructions of a step that differ only in microbatch and layer number.
struct MeasuredRow {
  std::string name;  // "layers.*.ffn.up"
  std::string what;  // "forward compute", "backward all_reduce"
  int count = 0;
  double predicted_s = 0.0;  // of all together, like measured_s
  double measured_s = 0.0;
};

struct MeasuredRun {
  std::vector<int64_t> steps;     // steps of the timeline that count
  std::vector<MeasuredRow> rows;  // farthest from their prediction first
  // Times of a whole step on the rank that computes longest: RunBusyTimes.
  BusyTimes predicted, measured;
  double predicted_wall_s = 0.0, measured_wall_s = 0.0;
};

// Compares medians over the steps, except for RunBusyTimes. An instruction takes as long as on the
// slowest rank. A collective lasts from its last begin to its last end on any rank, as waiting for
// a late rank is not its time. Throws Error(file) where the file has no prediction or no second
// step.
MeasuredRun compare_with_prediction(const TimingRecord& record);

}  // namespace hidup
