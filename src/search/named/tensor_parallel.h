// Tensor parallelism as in Megatron-LM, for named_strategy("megatron") and "megatron-sp".
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace hidup {

// Returns the name of each operation's rule. It cuts a product by columns and a later one by rows,
// with column-wise operations in between, so that the two need one sum. Other operations are cut
// along the sequence, if `along_sequence` and possible, or else replicated.
std::vector<std::string> tensor_parallel_rules(const Graph& graph, bool along_sequence);

}  // namespace hidup
