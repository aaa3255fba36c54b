// What a run needs whose times are those of the deck's cluster.
#pragma once

#include <cstdint>
#include <optional>

#include "cost/play.h"
#include "cost/rank_costs.h"
#include "cost/simulate.h"
#include "deck/deck.h"
#include "program/program.h"
#include "runtime/emulator.h"

namespace hidup {

// As the emulator takes them, of a rank. `durations` lives longer.
EmulatedTimes emulated_times(const Durations& durations, int64_t rank);

// A step that starts with the run, and the least that it could take: dependency_floor().
struct EmulatedForecast {
  Nanoseconds step = 0;  // without what is outside the program
  Nanoseconds floor = 0;
};
// None where the deck does not emulate, or on more than 64 ranks.
std::optional<EmulatedForecast> forecast_emulated(const Deck& deck, const Program& program,
                                                  const RankCosts& costs);

// Of the step that starts with the run, exactly as it is going to be; on the busiest rank.
Prediction predict_emulated(const Program& program, const Durations& durations);

}  // namespace hidup
