// What a strategy does on an axis of the mesh.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "search/search.h"
#include "sharding/strategy.h"

namespace hidup {

// "column": the rule of the operation that writes the tensor.
const std::string& rule_of(const Graph& graph, const Strategy& strategy, const std::string& output,
                           size_t axis = 0);
// Whether all operations of the kind are computed by one of the rules.
bool all_by(const Graph& graph, const Strategy& strategy, OpKind kind,
            const std::vector<std::string>& rules, size_t axis = 0);
// The heads of an attention and the rows behind them, columns of one product and rows of the next,
// in both layers of a dense model.
bool is_tensor_parallel(const Graph& graph, const Strategy& strategy, size_t axis = 0);
// The best feasible strategy that has no name; a failure of the test where there is none.
Candidate own_of(const SearchOutcome& outcome);

}  // namespace hidup
