// The ways to compute an operation on a mesh.
#pragma once

#include <cstddef>
#include <vector>

#include "sharding/hints.h"

namespace hidup {

// All combinations of a rule per axis, or, with same_rules, every rule on all axes. The hint, if
// there is one, decides on its axes; an axis of one rank has the first rule only.
std::vector<OpStrategy> ways_of(const Graph& graph, OpId op, const Mesh& mesh,
                                const OperationHint* hint, bool same_rules);

// Of ways that cut the operation into as many parts by each rule, on whatever axes, only one: all
// of them compute as much. None where there are more than `most`.
std::vector<OpStrategy> divisions_of(const Graph& graph, OpId op, const Mesh& mesh,
                                     const OperationHint* hint, size_t most);

}  // namespace hidup
