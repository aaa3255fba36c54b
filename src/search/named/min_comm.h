// The strategy of least communication volume: named_strategy("min-comm").
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// Takes the rules with which a rank sends the fewest bytes in a step, each collective counted as a
// ring; at equal volume the ones of the least computation and memory. Computation must be divided:
// a rule by which the first rank computes the whole of a product (matmul, attention) counts only
// where no other is left. Otherwise replicating everything would need no message at all. Parameters
// are stored as they are used; every axis of the mesh has the same rule.
Strategy least_communication(const Graph& graph, const Mesh& mesh);

}  // namespace hidup
