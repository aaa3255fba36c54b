#include <map>
#include <utility>

#include "search/problem/build_problem.h"

namespace hidup {
namespace {

// Applies BuiltProblem::recompute_for_readers.
void recompute_for_readers(const Graph& graph, const BuiltProblem& built, Strategy& strategy) {
  std::vector<bool> wanted(graph.tensors().size());  // by a recomputed operation
  for (size_t op = graph.ops().size(); op-- > 0;) {
    const Op& self = graph.ops()[op];
    bool& recompute = strategy.ops[op].recompute;
    recompute =
        recompute || (built.recompute_for_readers[op] && wanted[static_cast<size_t>(self.output)]);
    for (const TensorId input : self.inputs) {
      wanted[static_cast<size_t>(input)] = wanted[static_cast<size_t>(input)] || recompute;
    }
  }
}

}  // namespace

Strategy to_strategy(const Graph& graph, const Mesh& mesh, const BuiltProblem& built,
                     const Plan& plan) {
  Strategy strategy{.name = "search",
                    .mesh = mesh,
                    .microbatches = built.problem.microbatches,
                    .accumulate = built.accumulate,
                    .defer_gradients = built.defer_gradients};
  std::map<TensorId, ParameterStrategy> parameters;
  for (size_t op = 0; op < plan.choices.size(); ++op) {
    const auto kind = static_cast<size_t>(built.problem.ops[op].kind);
    const ChoiceMeaning& meaning = built.meanings[kind].at(static_cast<size_t>(plan.choices[op]));
    strategy.ops.push_back(meaning.op_strategy);
    for (size_t p = 0; p < meaning.inputs.size(); ++p) {
      const TensorId id = graph.ops()[op].inputs[meaning.inputs[p]];
      parameters[id] = {id, meaning.parameters[p].storage, meaning.parameters[p].optimizer_state,
                        meaning.residency[p]};
    }
  }
  recompute_for_readers(graph, built, strategy);
  for (const auto& [id, parameter] : parameters) {
    strategy.parameters.push_back(parameter);
  }
  return strategy;
}

}  // namespace hidup
