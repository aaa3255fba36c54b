// What a run needs whose times are those of the deck's cluster.
#pragma once

#include <functional>
#include <optional>

#include "comm/mpi_session.h"
#include "cost/play.h"
#include "cost/profile.h"
#include "cost/rank_costs.h"
#include "cost/simulate.h"
#include "deck/deck.h"
#include "program/program.h"
#include "runtime/emulator.h"
#include "train/report.h"

namespace hidup {

// A step that starts with the run, and the least that it could take: dependency_floor().
struct EmulatedForecast {
  Nanoseconds step = 0;  // without what is outside the program
  Nanoseconds floor = 0;
};
// None where the deck does not emulate, or on more than 64 ranks.
std::optional<EmulatedForecast> forecast_emulated(const Deck& deck, const Program& program,
                                                  const RankCosts& costs);

// Collective. Throws CollectiveError(usage) where the deck emulates and has no costs.
void check_emulated_costs(const Deck& deck, const Mesh& mesh, const std::optional<Profile>& costs,
                          Communicator& world);

// This rank's emulator, and what it emulates.
class Emulation {
 public:
  // Collective. Deck, program and session live longer. `clock_start`, `failed`: as
  // EmulatorOptions'. Throws Error(usage) where a step is too long to be counted.
  Emulation(const Deck& deck, const Program& program, const Profile& costs, MpiSession& mpi,
            double clock_start, std::function<bool()> failed);

  Emulator& emulator() { return *emulator_; }
  // Of the step that starts with the run, exactly as it is going to be; on the busiest rank.
  Prediction predict() const;
  // Collective. What emulated steps are compared with.
  EmulationScale scale(const std::optional<Prediction>& prediction) const;

 private:
  const Deck& deck_;
  const Program& program_;
  MpiSession& mpi_;
  std::optional<Durations> durations_;
  std::optional<Emulator> emulator_;  // uses the durations
};

}  // namespace hidup
