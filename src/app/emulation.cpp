#include "app/emulation.h"

#include <utility>
#include <vector>

#include "app/costs.h"
#include "cost/busy.h"
#include "cost/dependency_floor.h"
#include "train/setup.h"

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

std::optional<EmulatedForecast> forecast_emulated(const Deck& deck, const Program& program,
                                                  const RankCosts& costs) {
  constexpr int64_t kMost = 64;  // ranks, of which each is played
  if (!emulates(deck) || ranks_of(program.mesh) > kMost) {
    return std::nullopt;
  }
  const Durations durations(program, costs, links_in_time(deck));
  return EmulatedForecast{.step = play(program, durations).end,
                          .floor = dependency_floor(program, durations)};
}

Prediction predict_emulated(const Program& program, const Durations& durations) {
  const PlayedStep step = play(program, durations);
  Prediction prediction{.iteration_s = 1e-9 * static_cast<double>(step.end + durations.overhead())};
  for (const std::vector<PlayedInstruction>& rank : step.ranks) {
    std::vector<Interval> intervals;
    intervals.reserve(rank.size());
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
