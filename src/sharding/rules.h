// Rules: the legal ways to compute an operation in parts along one axis of the mesh.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "sharding/placement.h"

namespace hidup {

// The placements of an operation that is computed in parts: of its inputs, of its output, and of
// the inputs' gradients after the backward pass, which receives the output's gradient as
// gradient_of(output).
struct Rule {
  std::string name;
  std::vector<Placement> inputs;
  Placement output;
  std::vector<Placement> input_gradients;  // without meaning for integer inputs
  Placement saved;         // values saved by the forward pass (OperationSpec::saved)
  ShareNumber share = {};  // share of all its placements
  // The input whose gradient every rank computes whole, from operands that the backward pass
  // gathers for it (sufficient factor broadcasting: Xie et al. 2016; HAP, EuroSys 2024); -1: none.
  int factors_of = -1;

  bool operator==(const Rule&) const = default;
};

// Returns the placement of a tensor's gradient: a shard's is sharded alike; a summand's is the
// sum's, on every rank that has a summand.
Placement gradient_of(const Placement& placement);
Layout gradient_of(const Layout& layout);

// Returns all rules of an operation, `replicate` first (every rank computes all of it). The others
// are named after the dimension that they cut: batch, sequence, column, head, expert, ... of the
// output; row: a dimension that a product sums over; vocabulary: the classes of an embedding or a
// cross-entropy. `partial` computes a linear operation on summands. `factors` is `batch` for a
// product, but gathers its input and its output's gradient, the factors of the weight's gradient,
// which no rank sends then.
std::vector<Rule> rules_of(const Graph& graph, OpId op);

// Returns "batch", "batch%1" or "replicate@0".
std::string to_string(const Rule& rule);
// Returns true if the share affects the rule: if it cuts anything, or the share leaves ranks out.
bool takes_share(const Rule& rule, const Axis& axis, ShareNumber share);
// Returns the rule on the ranks that the share includes, with all its shards in parts of the share.
Rule with_share(Rule rule, const Axis& axis, ShareNumber share);

// Returns the first of rules_of().
Rule replicate_rule(const Graph& graph, OpId op);

}  // namespace hidup
