// Which ways the values of a strategy go: along which axes, and by which algorithms.
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

// The strategy's program. A strategy without algorithms gets those that take least time by the
// costs (Strategy::algorithms), and on several axes one without routes the fastest way of every
// reshard, where that is not one axis after the other (Strategy::routes): they are chosen while the
// program is written.
Program lower_by_costs(const Graph& graph, Strategy& strategy, const LoweringOptions& options,
                       const ReshardCosts& costs);

// The strategy with the routes and algorithms that lower_by_costs() chooses.
Strategy with_ways(const Graph& graph, Strategy strategy, const LoweringOptions& options,
                   const CostModel& costs);

}  // namespace hidup
