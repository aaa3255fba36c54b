// Which ways the values of a strategy go on a mesh of several axes.
#pragma once

#include "cost/cost_model.h"
#include "program/lower.h"
#include "sharding/strategy.h"

namespace hidup {

// The strategy with the way of every reshard that takes least time by the costs, where that is
// not one axis after the other (Strategy::routes). On one axis, and where it has routes already,
// as it is.
Strategy with_routes(const Graph& graph, Strategy strategy, const LoweringOptions& options,
                     const CostModel& costs);

}  // namespace hidup
