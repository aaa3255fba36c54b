// The legal ways to compute an operation in parts, along one axis of the mesh.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "sharding/placement.h"

namespace hidup {

// An operation computed in parts: what the ranks hold of its inputs, what they
// then have of its output, and what the backward pass leaves them of the inputs'
// gradients. The backward pass receives the output's gradient as
// gradient_of(output).
struct Rule {
  std::string_view name;
  std::vector<Placement> inputs;
  Placement output;
  std::vector<Placement> input_gradients;
};

// How the gradient of a tensor with this placement is held: a shard's is sharded
// alike; that of a summand is that of the sum, on every rank.
Placement gradient_of(const Placement& placement);

// All rules of an operation: `batch` (dimension 0 of activations is cut, parameters
// are replicated, their gradients are sums over the ranks).
std::vector<Rule> rules_of(const Graph& graph, OpId op);

}  // namespace hidup
