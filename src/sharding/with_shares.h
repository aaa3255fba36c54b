// Strategies whose parts along an axis follow shares.
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// Returns the strategy with these weights along the axis. Rules that cut take the parts of
// `compute`, and so do parameters that are stored as their first reader uses them. Other shards of
// parameters, and of the optimizer's state, take those of `state`. Shares that the strategy has
// along the axis stay. Equal weights make equal parts.
Strategy with_shares(const Graph& graph, Strategy strategy, size_t axis, const Share& compute,
                     const Share& state);

// Returns the strategy with equal parts on all axes. What lies on one rank of an axis stays there.
Strategy with_equal_parts(Strategy strategy);

}  // namespace hidup
