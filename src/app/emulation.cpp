#include "app/emulation.h"

#include <numeric>
#include <utility>
#include <vector>

#include "app/costs.h"
#include "app/machine.h"
#include "cost/busy.h"
#include "cost/dependency_floor.h"
#include "deck/cluster_deck.h"

namespace hidup {

std::optional<EmulatedForecast> forecast_emulated(const Deck& deck, const Program& program,
                                                  const RankCosts& costs) {
  constexpr int64_t kMost = 64;  // ranks; each one is played
  if (!deck.cluster->emulates() || ranks_of(program.mesh) > kMost) {
    return std::nullopt;
  }
  const Durations durations(program, costs, links_in_time(deck, program.mesh),
                            paces_in_time(deck, ranks_of(program.mesh)));
  return EmulatedForecast{.step = play(program, durations).end,
                          .floor = dependency_floor(program, durations)};
}

Prediction predict_emulated(const Program& program, const Durations& durations) {
  const PlayedStep step = play(program, durations);
  Prediction prediction{.iteration_s = to_seconds(step.end + durations.overhead())};
  for (const std::vector<PlayedInstruction>& rank : step.ranks) {
    std::vector<Interval> intervals;
    intervals.reserve(rank.size());
    for (const PlayedInstruction& played : rank) {
      intervals.push_back({to_seconds(played.start), to_seconds(played.end)});
    }
    const BusyTimes busy = busy_times(program, intervals);
    if (prediction.instructions.empty() || busy.compute_s > prediction.busy.compute_s) {
      prediction.busy = busy;
      prediction.instructions = std::move(intervals);
    }
  }
  return prediction;
}

EmulationScale emulation_scale(const Deck& deck, const Program& program,
                               const std::optional<Prediction>& prediction,
                               const Machine& machine) {
  Communicator& world = machine.world;
  const std::vector<double> cores = all_gather_value(world, share_of_cores(world, machine.host));
  EmulationScale scale{.dilation = deck.cluster->emulate_dilation,
                       .cores = std::accumulate(cores.begin(), cores.end(), 0.0),
                       .instructions = world.size() * std::ssize(program.instructions)};
  if (prediction) {
    scale.predicted_s = prediction->iteration_s;
  }
  return scale;
}

}  // namespace hidup
