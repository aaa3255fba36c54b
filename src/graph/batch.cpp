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
    const std::string& name = graph.tensor(op.output).name;
    const OperationSpec& spec = spec_of(op.kind);
    const int first = graph.tensor(op.inputs[0]).batch_dim();
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Tensor& input = graph.tensor(op.inputs[i]);
      const bool parameter = input.role == Tensor::Role::parameter;
      if (parameter != spec.inputs[i].parameter) {
        return fmt::format("{} has {} {} as {}", name,
                           parameter ? "the parameter" : "the activation", input.name,
                           spec.inputs[i].name);
      }
      const int taken = spec.inputs[i].batch < 0 ? first : spec.inputs[i].batch;
      if (!parameter && input.batch_dim() != taken) {
        return fmt::format("{} takes dimension {} of {} for the batch", name, taken, input.name);
      }
    }
    if (op.output != graph.loss() && graph.tensor(op.output).batch_dim() < 0) {
      return fmt::format("no dimension of {} is the batch", name);
    }
  }
  return "";
}

std::string accumulate_obstacle(const Graph& graph) {
  if (const std::string obstacle = batch_obstacle(graph); !obstacle.empty()) {
    return "the batch of this graph cannot be split: " + obstacle;
  }
  for (const Op& op : graph.ops()) {
    if (is_route(op) && has_backward(op)) {
      return fmt::format("the losses of {} are of the whole batch, not of a group of it",
                         graph.tensor(op.output).name);
    }
  }
  return "";
}

Graph with_batch(const Graph& graph, int64_t batch) {
  Graph other(graph.name());
  for (const Tensor& tensor : graph.tensors()) {  // the same order gives the same numbers
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
