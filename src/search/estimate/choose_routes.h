// Chooses the routes and algorithms of a strategy's messages.
//
// The search chooses for every strategy that it simulates, and choose_strategy()
// (app/planning.cpp) for a named one, where costs are known. All other lowering obeys the
// strategy, so a strategy file means the same program everywhere. Where a strategy has no routes,
// the outermost axis goes first.
#pragma once

#include "program/lower.h"
#include "search/problem/reshard_costs.h"
#include "sharding/strategy.h"

namespace hidup {

// Returns the strategy's program. While writing it, sets the fastest algorithms by the costs in a
// strategy without any (Strategy::algorithms). On several axes it sets the fastest route of every
// reshard in a strategy without routes, where that is not one axis after the other
// (Strategy::routes).
Program lower_by_costs(const Graph& graph, Strategy& strategy, const LoweringOptions& options,
                       const ReshardCosts& costs);

// Returns the strategy with the routes and algorithms that lower_by_costs() chooses.
Strategy with_routes(const Graph& graph, Strategy strategy, const LoweringOptions& options,
                     const CostModel& costs);

}  // namespace hidup
