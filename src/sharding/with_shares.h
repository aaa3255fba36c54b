// Strategies whose parts along an axis follow shares.
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// The shares of a strategy along an axis, by what is cut. Equal weights make equal parts.
struct Shares {
  Share tokens;    // of rules that cut the batch, the sequence, or the experts of the tokens
  Share features;  // of other rules: columns, rows, heads, classes
  Share state;     // of parameters, and the optimizer's state, unless as the first reader uses them
};

// Returns true for a rule that takes Shares::features.
bool cuts_features(const Rule& rule);

// Returns the strategy with these shares along the axis. Those that it has there stay.
Strategy with_shares(const Graph& graph, Strategy strategy, size_t axis, const Shares& shares);

// Returns the strategy with equal parts on all axes. What lies on one rank of an axis stays there.
Strategy with_equal_parts(Strategy strategy);

}  // namespace hidup
