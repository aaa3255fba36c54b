// The legal ways to compute an operation in parts, along one axis of the mesh.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/placement.h"

namespace hidup {

// An operation computed in parts: what the ranks hold of its inputs, what they
// then have of its output, and what the backward pass leaves them of the inputs'
// gradients. The backward pass receives the output's gradient as
// gradient_of(output).
struct Rule {
  std::string name;
  std::vector<Placement> inputs;
  Placement output;
  std::vector<Placement> input_gradients;  // of integer inputs: without meaning
  Placement saved;                         // of what the forward pass keeps (OperationSpec::saved)
  ShareNumber share = {};                  // of all its placements

  bool operator==(const Rule&) const = default;
};

// How the gradient of a tensor with this placement is held: a shard's is sharded
// alike; that of a summand is that of the sum, on every rank that has one.
Placement gradient_of(const Placement& placement);
Layout gradient_of(const Layout& layout);

// All rules of an operation, `replicate` first (every rank computes all of it). The others are
// called like the dimension that they cut: batch, sequence, column, head, expert, ... of the
// output; row: a dimension that a product sums over; vocabulary: the classes of an embedding or
// a cross-entropy. `partial`: a linear operation on summands.
std::vector<Rule> rules_of(const Graph& graph, OpId op);

// "batch", "batch%1", "replicate@0"
std::string to_string(const Rule& rule);
// Whether the share means anything to it: where it cuts nothing, only one that leaves ranks out.
bool takes_share(const Rule& rule, const Axis& axis, ShareNumber share);
// The rule by the ranks that the share includes, all its shards in parts of it.
Rule with_share(Rule rule, const Axis& axis, ShareNumber share);

// The first of them.
Rule replicate_rule(const Graph& graph, OpId op);

}  // namespace hidup
