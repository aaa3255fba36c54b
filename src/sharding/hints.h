// Hints: decisions of a person about a strategy. The search decides the rest.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sharding/strategy.h"

namespace hidup {

// Empty members are free.
struct OperationHint {
  std::vector<std::optional<Rule>> rules;  // per axis of the mesh
  std::optional<bool> recompute;
};

struct ParameterHint {
  std::optional<Layout> storage;
  std::optional<Layout> optimizer_state;
  std::optional<Residency> residency;
};

struct Hints {
  Mesh mesh;  // the search's mesh, with shares that rules and layouts may name
  std::optional<int> microbatches;
  std::optional<int> accumulate;
  std::optional<bool> defer_gradients;
  std::vector<OperationHint> ops;         // in graph order, or none at all
  std::vector<ParameterHint> parameters;  // per tensor of the graph, or none at all

  bool empty() const {
    return !microbatches && !accumulate && !defer_gradients && ops.empty() && parameters.empty();
  }
  // Makes room for hints of all operations; new ones are free.
  void resize_ops(size_t count, size_t axes) {
    ops.resize(count, {.rules = std::vector<std::optional<Rule>>(axes)});
  }
  const OperationHint* of_operation(OpId op) const {
    return ops.empty() ? nullptr : &ops.at(static_cast<size_t>(op));
  }
  const ParameterHint* of_parameter(TensorId id) const {
    return parameters.empty() ? nullptr : &parameters.at(static_cast<size_t>(id));
  }
};

// Returns the first hint that the strategy breaks: "the hints ask for layers.0.ffn.up by column,
// not batch"; empty where it follows all of them.
std::string broken_hint(const Graph& graph, const Hints& hints, const Strategy& strategy);

// Returns the strategy with the hints' values of `reshard_after_forward`, `recompute` and
// `accumulate`.
Strategy with_memory_hints(const Hints& hints, Strategy strategy);

// Reads hints from a strategy file of which any part may be missing: whole keys, operations,
// parameters, an operation's rule on an axis ([batch, ~]). `op` and `name` may be patterns: * is
// any text, ? any character ("layers.*.ffn.up"). Later entries overrule earlier ones. The
// strategy's name, stages and prediction are ignored; graph_hash and mesh, if given, must be those
// of the search. Throws one Error(usage) with a line "SOURCE:LINE:COLUMN: ..." per problem: unknown
// names (with the nearest), illegal rules (with the operation and its legal ones), layouts that do
// not fit the parameter or the mesh, more microbatches than sequences, groups or recomputation
// where the graph allows none.
Hints read_hints(const Graph& graph, const Mesh& mesh, const std::string& text,
                 const std::string& source);

}  // namespace hidup
