#include "graph/batch.h"

#include <fmt/format.h>

#include "graph/operation.h"

namespace hidup {

int64_t batch_of(const Graph& graph) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Tensor::Role::input) {
      return tensor.shape.empty() ? 1 : tensor.shape[0];
    }
  }
  return 1;
}

std::string batch_obstacle(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    const OperationSpec& spec = spec_of(op.kind);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const bool parameter = graph.tensor(op.inputs[i]).role == Tensor::Role::parameter;
      if (parameter != spec.inputs[i].parameter) {
        return fmt::format("{} has {} {} as {}", graph.tensor(op.output).name,
                           parameter ? "the parameter" : "the activation",
                           graph.tensor(op.inputs[i]).name, spec.inputs[i].name);
      }
    }
    const std::vector<std::string>& dims = graph.tensor(op.output).dims;
    if (op.output != graph.loss() && (dims.empty() || dims[0] != "batch")) {
      return fmt::format("dimension 0 of {} is not the batch", graph.tensor(op.output).name);
    }
  }
  return "";
}

Graph with_batch(const Graph& graph, int64_t batch) {
  Graph other(graph.name());
  for (const Tensor& tensor : graph.tensors()) {  // in the same order: the numbers are the same
    if (tensor.role == Tensor::Role::input) {
      Shape shape = tensor.shape;
      shape.at(0) = batch;
      other.add_input(tensor.name, tensor.dtype, shape);
    } else if (tensor.role == Tensor::Role::parameter) {
      other.add_parameter(tensor.name, tensor.shape, tensor.init, tensor.decay, tensor.dtype);
    } else {
      const Op& op = graph.op(tensor.producer);
      other.add_op(op.kind, tensor.name, op.inputs, op.attributes);
    }
  }
  return other;
}

}  // namespace hidup
