// Queries of a strategy's decisions on an axis of the mesh.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "search/search.h"
#include "sharding/strategy.h"

namespace hidup {

// Returns the rule of the operation that writes the tensor, such as "column".
const std::string& rule_of(const Graph& graph, const Strategy& strategy, const std::string& output,
                           size_t axis = 0);
// Returns true if all operations of the kind have one of the rules.
bool all_by(const Graph& graph, const Strategy& strategy, OpKind kind,
            const std::vector<std::string>& rules, size_t axis = 0);
// Returns true for tensor parallelism in both layers of a dense model: attention by heads with the
// next product by rows, and a product by columns with the next one by rows.
bool is_tensor_parallel(const Graph& graph, const Strategy& strategy, size_t axis = 0);
// Returns the best feasible strategy without a name; fails the test where there is none.
Candidate own_of(const SearchOutcome& outcome);

}  // namespace hidup
