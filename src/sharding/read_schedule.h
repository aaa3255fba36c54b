// The key `schedule` of strategy files, for their reader only.
#pragma once

#include "sharding/strategy.h"
#include "sharding/strategy_fields.h"

namespace hidup {

// Reads {axis, name, k, live, cuts}, or {axis, name: custom, cuts, order: a row of cells per stage,
// as in CSV files}. `strategy`: complete but for its schedule. Reports what is wrong to `fields`,
// also a schedule that the stages of the strategy cannot keep. Returns nothing after a problem.
std::optional<StageSchedule> read_schedule(const YamlNode& node, const Strategy& strategy,
                                           StrategyFields& fields);

// Returns the key with its value, as a block of YAML; empty without a schedule.
std::string print_schedule(const Graph& graph, const Strategy& strategy);

}  // namespace hidup
