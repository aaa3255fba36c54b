// New shares for a strategy that runs already, after some ranks became slower or faster.
#pragma once

#include "cost/cost_model.h"
#include "cost/rank_costs.h"
#include "graph/graph.h"
#include "search/search.h"
#include "sharding/strategy.h"

namespace hidup {

// Returns the strategy with the shares along one axis that make its step fastest, or with equal
// parts on all axes where nothing is faster or fits. Its name, rules and storages stay; routes and
// algorithms are chosen anew. `paced`: the strategy's mesh with Axis::paces of the ranks as they
// are now, and without shares. `ranks`: their costs. `options`: memory limits and lowering.
Strategy with_new_shares(const Graph& graph, Strategy strategy, const Mesh& paced,
                         const CostModel& costs, const RankCosts& ranks,
                         const SearchOptions& options);

}  // namespace hidup
