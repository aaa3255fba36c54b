// Checks whether a step can be computed in parts of its batch.
#pragma once

#include <string>

#include "graph/graph.h"

namespace hidup {

// Returns the sequences of a step, dimension 0 of the inputs.
int64_t batch_of(const Graph& graph);

// Returns the reason why the batch cannot be split into microbatches, or "". It can be split where
// every activation comes from the step's inputs, with the batch in the dimension that operations
// take for it, and parameters are used only as weights, biases and tables.
std::string batch_obstacle(const Graph& graph);

// Returns the reason why the batch cannot be computed in groups, one after the other, or "": it
// cannot be split, or routers have losses, whose gradients need sums over the whole batch.
std::string accumulate_obstacle(const Graph& graph);

// Returns the graph for this many sequences per step. The batch must be one that can be split.
Graph with_batch(const Graph& graph, int64_t batch);

}  // namespace hidup
