#include "app/emulation.h"

#include <numeric>
#include <utility>
#include <vector>

#include "app/costs.h"
#include "app/machine.h"
#include "comm/collective.h"
#include "cost/busy.h"
#include "cost/dependency_floor.h"
#include "deck/cluster_deck.h"

namespace hidup {

std::optional<EmulatedForecast> forecast_emulated(const Deck& deck, const Program& program,
                                                  const RankCosts& costs) {
  constexpr int64_t kMost = 64;  // ranks, of which each is played
  if (!deck.cluster->emulates() || ranks_of(program.mesh) > kMost) {
    return std::nullopt;
  }
  const Durations durations(program, costs, links_in_time(deck, program.mesh));
  return EmulatedForecast{.step = play(program, durations).end,
                          .floor = dependency_floor(program, durations)};
}

void check_emulated_costs(const Deck& deck, const Mesh& mesh, const std::optional<Profile>& costs,
                          Communicator& world) {
  if (deck.cluster->emulates() && !costs) {
    collectively(world, [&] {
      fail_for_missing_rate(deck, mesh,
                            "cluster.emulate rests on it, or on cluster.profile with a file of "
                            "`hidup profile`");
    });
  }
}

Emulation::Emulation(const Deck& deck, const Program& program, const Profile& costs,
                     MpiSession& mpi, double clock_start, std::function<bool()> failed)
    : deck_(deck), program_(program), mpi_(mpi) {
  Communicator& world = mpi.world();
  collectively(world, [&] {
    durations_.emplace(program, rank_costs(deck, program.mesh, costs),
                       links_in_time(deck, program.mesh));
  });
  const auto end_of = [this, rank = world.rank()](int instruction, Nanoseconds start) {
    return durations_->end_of(instruction, rank, start);
  };
  emulator_.emplace(program, world,
                    EmulatedTimes{.end_of = end_of,
                                  .launch = durations_->launch(),
                                  .signal = durations_->signal(),
                                  .overhead = durations_->overhead()},
                    EmulatorOptions{.dilation = deck.cluster->emulate_dilation,
                                    .clock_start = clock_start,
                                    .failed = std::move(failed)});
}

Prediction Emulation::predict() const {
  const PlayedStep step = play(program_, *durations_);
  Prediction prediction{.iteration_s = to_seconds(step.end + durations_->overhead())};
  for (const std::vector<PlayedInstruction>& rank : step.ranks) {
    std::vector<Interval> intervals;
    intervals.reserve(rank.size());
    for (const PlayedInstruction& played : rank) {
      intervals.push_back({to_seconds(played.start), to_seconds(played.end)});
    }
    const BusyTimes busy = busy_times(program_, intervals);
    if (prediction.instructions.empty() || busy.compute_s > prediction.busy.compute_s) {
      prediction.busy = busy;
      prediction.instructions = std::move(intervals);
    }
  }
  return prediction;
}

EmulationScale Emulation::scale(const std::optional<Prediction>& prediction) const {
  Communicator& world = mpi_.world();
  const std::vector<double> cores = all_gather_value(world, share_of_cores(world, mpi_.host()));
  EmulationScale scale{.dilation = deck_.cluster->emulate_dilation,
                       .cores = std::accumulate(cores.begin(), cores.end(), 0.0),
                       .instructions = world.size() * std::ssize(program_.instructions)};
  if (prediction) {
    scale.predicted_s = prediction->iteration_s;
  }
  return scale;
}

}  // namespace hidup
