// The strategy of least communication volume: named_strategy("min-comm").
#pragma once

#include "sharding/strategy.h"

namespace hidup {

// Parameters are stored as they are used; every axis of the mesh has the same rule.
Strategy least_communication(const Graph& graph, const Mesh& mesh);

}  // namespace hidup
