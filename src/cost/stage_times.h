// The times of a pipeline's passes in a program, from which its order alone has an end.
#pragma once

#include "cost/rank_costs.h"
#include "program/program.h"
#include "schedule/simulate.h"
#include "sharding/stages.h"

namespace hidup {

// Returns the times that the chunks compute for a microbatch, the mean of all microbatches, on the
// slowest rank of each device. `slots`: slots_in_order() of the program's strategy. A backward pass
// has its own time alone where weights passes are apart, and else that of both. Moves take no time.
pipeline::Times stage_times(const Program& program, const Stages& stages,
                            const std::vector<StageSlot>& slots, const RankCosts& costs);

}  // namespace hidup
