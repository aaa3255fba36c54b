// Which ways the values of a strategy go: along which axes, and by which algorithms.
#pragma once

#include "cost/cost_model.h"
#include "program/lower.h"
#include "sharding/strategy.h"

namespace hidup {

// The strategy with the algorithms that take least time by the costs (Strategy::algorithms), and,
// on several axes, with the way of every reshard that does, where that is not one axis after the
// other (Strategy::routes). What it has already of either stays.
Strategy with_ways(const Graph& graph, Strategy strategy, const LoweringOptions& options,
                   const CostModel& costs);

}  // namespace hidup
