// The legal strategies of one operation on a mesh: a rule per axis.
#pragma once

#include <cstddef>
#include <vector>

#include "sharding/hints.h"

namespace hidup {

// Returns all combinations of a rule per axis; with same_rules, only those of one rule on all axes.
// A hint (or null) fixes the axes that it names; an axis of one rank has the first rule only.
// `shares`: by axis, the share of the other rules; empty: equal parts.
std::vector<OpStrategy> op_strategies_of(const Graph& graph, OpId op, const Mesh& mesh,
                                         const OperationHint* hint, bool same_rules,
                                         const std::vector<ShareNumber>& shares = {});

// Returns the known strategies that meet the hint, then at most `most` others that differ from one
// of them on one axis, in order; all different.
std::vector<OpStrategy> op_strategies_near(const Graph& graph, OpId op, const Mesh& mesh,
                                           const OperationHint* hint,
                                           const std::vector<OpStrategy>& known, size_t most,
                                           const std::vector<ShareNumber>& shares = {});

// Returns the largest number of strategies of any operation, without rules that gather factors: few
// of these can pay (factors.h).
size_t most_strategies(const Graph& graph, const Mesh& mesh, const Hints* hints);

// Returns one strategy for each division of the computation: strategies that cut the operation into
// equally many parts by each rule, on whatever axes, compute equally much. Empty above `most`, and
// where such parts may have experts of other loads.
// Rules that gather factors compute more than those without, so they occur only where a hint asks.
std::vector<OpStrategy> divisions_of(const Graph& graph, OpId op, const Mesh& mesh,
                                     const OperationHint* hint, size_t most);

}  // namespace hidup
