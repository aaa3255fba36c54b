// Tensor parallelism as Megatron-LM does it, for named_strategy("megatron") and "megatron-sp".
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace hidup {

// Per operation: the name of its rule. A product whose columns feed a product of rows, maybe with
// operations in between that work on columns alone, is cut so that the two need one sum.
// `along_sequence`: operations outside of such pairs are cut along the sequence where they have
// that rule; else every rank computes all of them.
std::vector<std::string> tensor_parallel_rules(const Graph& graph, bool along_sequence);

}  // namespace hidup
