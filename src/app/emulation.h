// What a run needs whose times are those of the deck's cluster.
#pragma once

#include <optional>

#include "cost/play.h"
#include "cost/rank_costs.h"
#include "cost/simulate.h"
#include "deck/deck.h"
#include "program/program.h"
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

// The step that starts with the run, exactly as it is going to be; of the rank that computes
// longest.
Prediction predict_emulated(const Program& program, const Durations& durations);

struct Machine;  // app/machine.h

// Collective. What emulated steps are compared with.
EmulationScale emulation_scale(const Deck& deck, const Program& program,
                               const std::optional<Prediction>& prediction, const Machine& machine);

}  // namespace hidup
