#include <algorithm>

#include "graph/operation.h"
#include "program/lowering.h"

namespace hidup {

InferenceModel without_training(const Graph& graph, const Strategy& strategy) {
  InferenceModel model{Graph(graph.name()), strategy, {}};
  model.strategy.ops.clear();
  model.strategy.stages.clear();
  std::vector<TensorId> now;  // per tensor of the graph: the tensor that now has its content
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::parameter) {
      now.push_back(model.graph.add_parameter(tensor.name, tensor.shape, tensor.init, tensor.decay,
                                              tensor.dtype));
      continue;
    }
    if (tensor.role == Tensor::Role::input) {
      now.push_back(model.graph.add_input(tensor.name, tensor.dtype, tensor.shape));
      continue;
    }
    const Op& op = graph.op(tensor.producer);
    if (spec_of(op.kind).training_only) {
      now.push_back(now[static_cast<size_t>(op.inputs[0])]);
      continue;
    }
    std::vector<TensorId> inputs;
    for (const TensorId input : op.inputs) {
      inputs.push_back(now[static_cast<size_t>(input)]);
    }
    now.push_back(model.graph.add_op(op.kind, tensor.name, inputs, op.attributes));
    model.graph.expect(now.back(), tensor.loads, tensor.slack);
    model.strategy.ops.push_back(strategy.ops[static_cast<size_t>(tensor.producer)]);
    model.original_ops.push_back(tensor.producer);
  }
  if (model.strategy.schedule) {  // a cut at an operation that is gone is at the next one
    for (OpId& cut : model.strategy.schedule->cuts) {
      const auto next = std::ranges::lower_bound(model.original_ops, cut);
      cut = static_cast<OpId>(next - model.original_ops.begin());
    }
  }
  for (ParameterStrategy& parameter : model.strategy.parameters) {
    parameter.tensor = now[static_cast<size_t>(parameter.tensor)];
  }
  return model;
}

}  // namespace hidup
