#include "graph/graph.h"

#include <utility>

#include "core/check.h"
#include "graph/operation.h"

namespace hidup {

TensorId Graph::add_tensor(Tensor tensor) {
  const auto id = static_cast<TensorId>(tensors_.size());
  if (!by_name_.emplace(tensor.name, id).second) {
    fail(ExitCode::usage, "{} is defined twice", tensor.name);
  }
  tensors_.push_back(std::move(tensor));
  return id;
}

TensorId Graph::add_input(const std::string& name, DType dtype, const Shape& shape) {
  Tensor tensor{.name = name, .dtype = dtype, .shape = shape, .role = Tensor::Role::input};
  return add_tensor(std::move(tensor));
}

TensorId Graph::add_parameter(const std::string& name, const Shape& shape, Init init, bool decay) {
  Tensor tensor{
      .name = name, .shape = shape, .role = Tensor::Role::parameter, .init = init, .decay = decay};
  return add_tensor(std::move(tensor));
}

TensorId Graph::add_op(OpKind kind, const std::string& name, const std::vector<TensorId>& inputs,
                       const Attributes& attributes) {
  const OperationSpec& spec = spec_of(kind);
  Op op{.kind = kind, .inputs = inputs, .attributes = spec.attributes};
  for (const auto& [key, value] : attributes) {
    check(spec.attributes.contains(key), "{} has no attribute {}", spec.name, key);
    op.attributes[key] = value;
  }
  std::vector<Shape> shapes;
  shapes.reserve(inputs.size());
  for (const TensorId input : inputs) {
    shapes.push_back(tensor(input).shape);
  }
  Tensor output{.name = name, .producer = static_cast<OpId>(ops_.size())};
  try {
    output.shape = infer_shape(kind, shapes, op.attributes);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
  op.output = add_tensor(std::move(output));
  ops_.push_back(std::move(op));
  return ops_.back().output;
}

TensorId Graph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& tensor : tensors_) {
    count += tensor.role == Tensor::Role::parameter ? elements(tensor.shape) : 0;
  }
  return count;
}

}  // namespace hidup
