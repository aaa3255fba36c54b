#include "app/emulation.h"

#include <utility>
#include <vector>

#include "cost/busy.h"

namespace hidup {

EmulatedTimes emulated_times(const Durations& durations, int64_t rank) {
  const auto end_of = [&durations, rank](int instruction, Nanoseconds start) {
    return durations.end_of(instruction, rank, start);
  };
  return {.end_of = end_of,
          .launch = durations.launch(),
          .signal = durations.signal(),
          .overhead = durations.overhead()};
}

Prediction predict_emulated(const Program& program, const Durations& durations) {
  const PlayedStep step = play(program, durations);
  Prediction prediction{.iteration_s = 1e-9 * static_cast<double>(step.end + durations.overhead())};
  for (const std::vector<PlayedInstruction>& rank : step.ranks) {
    std::vector<Interval> intervals;
    for (const PlayedInstruction& played : rank) {
      intervals.push_back(
          {1e-9 * static_cast<double>(played.start), 1e-9 * static_cast<double>(played.end)});
    }
    const BusyTimes busy = busy_times(program, intervals);
    if (prediction.instructions.empty() || busy.compute_s > prediction.busy.compute_s) {
      prediction.busy = busy;
      prediction.instructions = std::move(intervals);
    }
  }
  return prediction;
}

}  // namespace hidup
