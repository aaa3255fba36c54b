// Helpers for runs that emulate the deck's cluster.
#pragma once

#include <optional>

#include "cost/play.h"
#include "cost/rank_costs.h"
#include "cost/simulate.h"
#include "deck/deck.h"
#include "program/program.h"
#include "train/report.h"

namespace hidup {

// A step at the start of the run, and its lower bound dependency_floor().
struct EmulatedForecast {
  Nanoseconds step = 0;  // without time outside the program
  Nanoseconds floor = 0;
};
// Returns none where the deck does not emulate, or has more than 64 ranks.
std::optional<EmulatedForecast> forecast_emulated(const Deck& deck, const Program& program,
                                                  const RankCosts& costs);

// Returns the exact times of the step at the start of the run, on the rank that computes longest.
Prediction predict_emulated(const Program& program, const Durations& durations);

struct Machine;  // app/machine.h

// Returns the values to compare emulated steps with. Collective.
EmulationScale emulation_scale(const Deck& deck, const Program& program,
                               const std::optional<Prediction>& prediction, const Machine& machine);

}  // namespace hidup
