#include "search/named.h"

#include <string>

#include "core/check.h"

namespace hidup {

void check_strategy_name(std::string_view name) {
  if (name != "dp") {
    fail(ExitCode::usage, "--strategy {}: there is no such strategy; there is dp", name);
  }
}

Strategy named_strategy(std::string_view name, const Graph& graph, const Mesh& mesh) {
  check_strategy_name(name);
  Strategy strategy{.name = std::string(name), .mesh = mesh};
  for (OpId op = 0; op < static_cast<OpId>(graph.ops().size()); ++op) {
    strategy.ops.push_back({std::vector<Rule>(mesh.size(), find_rule(graph, op, "batch"))});
  }
  const Layout replicated(mesh.size(), Placement::replicate());
  for (TensorId id = 0; id < static_cast<TensorId>(graph.tensors().size()); ++id) {
    if (graph.tensor(id).role == Tensor::Role::parameter) {
      strategy.parameters.push_back({id, replicated, replicated});
    }
  }
  return strategy;
}

}  // namespace hidup
