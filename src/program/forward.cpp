#include <fmt/format.h>

#include <map>

#include "core/check.h"
#include "graph/operation.h"
#include "program/lowering.h"

namespace hidup {
namespace {

Opcode forward_opcode(OpKind kind) {
  switch (kind) {
    case OpKind::embedding:
      return Opcode::embedding;
    case OpKind::positions:
      return Opcode::positions;
    case OpKind::matmul:
      return Opcode::matmul;
    case OpKind::bias:
      return Opcode::bias;
    case OpKind::relu:
      return Opcode::relu;
    case OpKind::dropout:
      return Opcode::dropout;
    case OpKind::add:
      return Opcode::add;
    case OpKind::layer_norm:
      return Opcode::layer_norm;
    case OpKind::attention:
      return Opcode::attention;
    case OpKind::cross_entropy:
      return Opcode::cross_entropy;
  }
  fail(ExitCode::internal, "an operation of unknown kind");
}

}  // namespace

void Lowering::add_parameters() {
  std::map<TensorId, const ParameterStrategy*> stored;
  for (const ParameterStrategy& parameter : strategy_.parameters) {
    stored[parameter.tensor] = &parameter;
  }
  for (TensorId id = 0; id < static_cast<TensorId>(graph_.tensors().size()); ++id) {
    const Tensor& tensor = graph_.tensor(id);
    Value value{.name = tensor.name,
                .dtype = tensor.dtype,
                .shape = tensor.shape,
                .init = tensor.init,
                .decay = tensor.decay};
    if (tensor.role == Tensor::Role::parameter) {
      value.role = Value::Role::parameter;
      value.layout = stored.at(id)->storage;
      value_of_[index(id)] = add_value(value);
      value.role = Value::Role::optimizer_state;
      value.layout = stored.at(id)->optimizer_state;
      for (const char* moment : {"m", "v"}) {
        value.name = fmt::format("{}.{}", tensor.name, moment);
        moments_[id].push_back(add_value(value));
      }
    }
  }
}

ValueId Lowering::operand(OpId op, size_t input) {
  const TensorId id = graph_.op(op).inputs[input];
  const Layout wanted = input_layout(strategy_.ops[index(op)], input);
  ValueId& value = value_of_[index(id)];
  if (value < 0) {  // an input of the step: every rank gets just its part
    const Tensor& tensor = graph_.tensor(id);
    value = add_value({.name = tensor.name,
                       .role = Value::Role::input,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .layout = wanted});
    (tensor.name == "tokens" ? program_.tokens : program_.targets) = value;
  }
  check(program_.value(value).layout == wanted, "{} is {}, but {} needs {}", graph_.tensor(id).name,
        to_string(program_.value(value).layout), graph_.op_name(op), to_string(wanted));
  return value;
}

bool Lowering::overwrites(OpId op, size_t input) const {
  const Op& self = graph_.op(op);
  const Tensor& tensor = graph_.tensor(self.inputs[input]);
  return spec_of(self.kind).in_place && tensor.role == Tensor::Role::activation &&
         consumers_[index(self.inputs[input])] == 1 &&
         !spec_of(self.kind).backward_needs_input[input] &&
         !spec_of(graph_.op(tensor.producer).kind).backward_needs_output;
}

ValueId Lowering::add_output(OpId id, const Operands& inputs) {
  const Op& op = graph_.op(id);
  const Layout layout = output_layout(strategy_.ops[index(id)]);
  const size_t last = op.kind == OpKind::add ? 1 : 0;  // the last activation input
  ValueId& output = value_of_[index(op.output)];
  if (overwrites(id, last)) {
    output = inputs[last];
    check(program_.value(output).layout == layout, "{} changes its layout in place",
          graph_.op_name(id));
  } else {
    output = add_value(
        {.name = graph_.op_name(id), .shape = graph_.tensor(op.output).shape, .layout = layout});
  }
  return output;
}

void Lowering::forward(OpId id) {
  const Op& op = graph_.op(id);
  const OperationSpec& spec = spec_of(op.kind);
  const std::string& name = graph_.op_name(id);
  phase_ = Phase::forward;
  microbatch_ = 0;

  Operands inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.push_back(operand(id, i));
  }
  const ValueId output = add_output(id, inputs);
  Operands outputs = {output};
  for (const std::string_view saved : spec.saved) {
    // Laid out like the operation's input: all rules so far cut dimension 0.
    outputs.push_back(add_value({.name = fmt::format("{}.{}", name, saved),
                                 .shape = saved_shape(op.kind, shapes_of(op)),
                                 .layout = program_.value(inputs[0]).layout}));
  }
  saved_[index(id)] = {outputs.begin() + 1, outputs.end()};

  Instruction& instruction = emit(forward_opcode(op.kind), name, inputs, outputs);
  instruction.attributes = op.attributes;
  if (op.kind == OpKind::dropout) {
    instruction.purpose = dropout_purpose(id);
  }
  if (op.kind == OpKind::cross_entropy) {
    program_.loss = output;
    program_.values[index(output)].role = Value::Role::result;
    instruction.attributes["scale"] = loss_scale(op);
    reduce_loss(output);
  }
}

std::vector<Shape> Lowering::shapes_of(const Op& op) const {
  std::vector<Shape> shapes;
  for (const TensorId input : op.inputs) {
    shapes.push_back(graph_.tensor(input).shape);
  }
  return shapes;
}

double Lowering::loss_scale(const Op& op) const {
  return 1.0 / static_cast<double>(elements(graph_.tensor(op.inputs[1]).shape));
}

void Lowering::reduce_loss(ValueId loss) {
  if (!one_rank()) {
    microbatch_ = -1;
    emit(Opcode::all_reduce, "loss.all_reduce", {loss}, {loss});
  }
}

}  // namespace hidup
