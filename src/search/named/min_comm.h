// The strategy with the least communication volume: named_strategy("min-comm").
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// Takes the rules with which a rank sends the fewest bytes in a step, counting each collective as a
// ring; at equal volume those of the least computation and memory. A rule by which the first rank
// computes a whole product (matmul, attention) counts only without other rules, because replicated
// work needs no messages. Parameters are stored as used, and every axis has the same rule.
Strategy least_communication(const Graph& graph, const Mesh& mesh);

}  // namespace hidup
