// What a run needs whose times are those of the deck's cluster.
#pragma once

#include <cstdint>

#include "cost/play.h"
#include "cost/simulate.h"
#include "program/program.h"
#include "runtime/emulator.h"

namespace hidup {

// As the emulator takes them, of a rank. `durations` lives longer.
EmulatedTimes emulated_times(const Durations& durations, int64_t rank);

// Of the step that starts with the run, exactly as it is going to be; on the busiest rank.
Prediction predict_emulated(const Program& program, const Durations& durations);

}  // namespace hidup
