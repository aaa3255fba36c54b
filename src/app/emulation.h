// What a run needs whose times are those of the deck's cluster.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "cost/play.h"
#include "cost/profile.h"
#include "cost/simulate.h"
#include "deck/deck.h"
#include "program/program.h"
#include "runtime/emulator.h"

namespace hidup {

// What the emulated times rest on, the same on all ranks: the file of cluster.profile, whatever
// machine and program it is of, or else the rates of the cluster deck; never measured. Collective.
// Throws CollectiveError(file), and CollectiveError(usage) where the file is of another mesh, or
// where a rate is missing.
Profile emulated_costs(const Deck& deck, const Mesh& mesh, Communicator& world);

// As the emulator takes them, of a rank. `durations` lives longer.
EmulatedTimes emulated_times(const Durations& durations, int64_t rank);

// Of the step that starts with the run, exactly as it is going to be; on the busiest rank.
Prediction predict_emulated(const Program& program, const Durations& durations);

}  // namespace hidup
