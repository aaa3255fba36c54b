// The legal strategies of one operation on a mesh: a rule per axis.
#pragma once

#include <cstddef>
#include <vector>

#include "sharding/hints.h"

namespace hidup {

// All combinations of a rule per axis; with same_rules, only those with the same rule on all axes.
// A hint (or null) decides on the axes that it names; an axis of one rank has the first rule only.
std::vector<OpStrategy> op_strategies_of(const Graph& graph, OpId op, const Mesh& mesh,
                                         const OperationHint* hint, bool same_rules);

// Of these combinations the known ones, which keep the hint, and those that differ from one of them
// on one axis; none twice, the known ones first, and at most `most` others, of the first ones
// first.
std::vector<OpStrategy> op_strategies_near(const Graph& graph, OpId op, const Mesh& mesh,
                                           const OperationHint* hint,
                                           const std::vector<OpStrategy>& known, size_t most);

// How many the operation that has most of them has.
size_t most_strategies(const Graph& graph, const Mesh& mesh, const Hints* hints);

// One strategy for each way to divide the computation: strategies that cut the operation into as
// many parts by each rule, on whatever axes, compute equally much. Empty where there are more than
// `most`.
std::vector<OpStrategy> divisions_of(const Graph& graph, OpId op, const Mesh& mesh,
                                     const OperationHint* hint, size_t most);

}  // namespace hidup
