// Whether a step can be computed in parts of its batch.
#pragma once

#include <string>

#include "graph/graph.h"

namespace hidup {

// Sequences of a step: dimension 0 of the inputs.
int64_t batch_of(const Graph& graph);

// Why the batch cannot be split into microbatches, or "". It can where every activation comes from
// the step's inputs, with the batch as the dimension that operations take for it, and parameters
// are used as weights, biases and tables only.
std::string batch_obstacle(const Graph& graph);

// Why the batch cannot be computed in groups, one behind the other, or "": where it cannot be
// split, and where routers have losses of their own, whose gradients need sums over the whole
// batch.
std::string accumulate_obstacle(const Graph& graph);

// The same graph for so many sequences of a step. Where the batch can be split only.
Graph with_batch(const Graph& graph, int64_t batch);

}  // namespace hidup
