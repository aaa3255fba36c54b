#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "program/lowering.h"

namespace hidup {

void Lowering::add_gradients() {
  std::vector<OpId> first_use(graph_.tensors().size(), op_count());
  for (OpId op = op_count() - 1; op >= 0; --op) {
    for (const TensorId input : graph_.op(op).inputs) {
      first_use[index(input)] = op;
    }
  }
  for (OpId op = op_count() - 1; op >= 0; --op) {
    for (size_t i = 0; i < graph_.op(op).inputs.size(); ++i) {
      const TensorId id = graph_.op(op).inputs[i];
      if (role(id) == Tensor::Role::parameter && first_use[index(id)] == op) {
        gradients_[id] = {
            .value = add_value({.name = gradient_name(op, i),
                                .role = Value::Role::gradient,
                                .shape = graph_.tensor(id).shape,
                                .layout = gradient_layout(strategy_.ops[index(op)], i)}),
            .completed_by = op};
      }
    }
  }
}

ValueId Lowering::take_gradient(OpId op) {
  return std::exchange(gradient_[index(graph_.op(op).output)], -1);
}

bool Lowering::unshared(ValueId value) const {
  return std::ranges::count(gradient_, value) == 0;
}

std::string Lowering::gradient_name(OpId op, size_t input) const {
  return fmt::format("{}.gradient", graph_.tensor(graph_.op(op).inputs[input]).name);
}

ValueId Lowering::activation_gradient(OpId op, size_t input) {
  return add_value({.name = gradient_name(op, input),
                    .shape = graph_.tensor(graph_.op(op).inputs[input]).shape,
                    .layout = gradient_layout(strategy_.ops[index(op)], input)});
}

void Lowering::contribute(OpId op, size_t input, ValueId value) {
  const TensorId id = graph_.op(op).inputs[input];
  if (role(id) != Tensor::Role::activation) {
    return;
  }
  ValueId& sum = gradient_[index(id)];
  if (sum < 0) {
    sum = value;
    return;
  }
  // Out of place where another tensor's gradient still is this very value.
  const ValueId old = std::exchange(sum, -1);
  const ValueId result = unshared(value) ? value
                         : unshared(old) ? old
                                         : activation_gradient(op, input);
  emit(Opcode::add, gradient_name(op, input) + ".add", {old, value}, {result});
  sum = result;
}

Lowering::Contribution Lowering::parameter_gradient(OpId op, size_t input) {
  const TensorId id = graph_.op(op).inputs[input];
  Gradient& gradient = gradients_.at(id);
  if (gradient.completed_by == op) {
    bucket_.push_back(id);
  }
  return {gradient.value, std::exchange(gradient.written, true)};
}

void Lowering::emit_parameter_gradient(OpId op, size_t input, Opcode opcode, Operands inputs) {
  const auto [gradient, accumulate] = parameter_gradient(op, input);
  Instruction& instruction = emit(opcode, gradient_name(op, input), std::move(inputs), {gradient});
  instruction.accumulate = accumulate;
  instruction.attributes = graph_.op(op).attributes;
}

void Lowering::backward(OpId id) {
  const Op& op = graph_.op(id);
  phase_ = Phase::backward;
  microbatch_ = 0;
  const ValueId dy = take_gradient(id);
  check(dy >= 0 || op.kind == OpKind::cross_entropy, "{} has no use", graph_.op_name(id));
  switch (op.kind) {
    case OpKind::embedding:
      emit_parameter_gradient(id, 1, Opcode::embedding_backward, {value(op.inputs[0]), dy});
      break;
    case OpKind::positions:
      contribute(id, 0, dy);
      break;
    case OpKind::matmul:
      emit_parameter_gradient(id, 1, Opcode::matmul_backward_weight, {value(op.inputs[0]), dy});
      matmul_input_gradient(id, dy);
      break;
    case OpKind::bias:
      emit_parameter_gradient(id, 1, Opcode::bias_backward, {dy});
      contribute(id, 0, dy);
      break;
    case OpKind::relu:
      elementwise_gradient(id, Opcode::relu_backward, {value(op.output), dy}, dy);
      break;
    case OpKind::dropout:
      elementwise_gradient(id, Opcode::dropout, {dy}, dy);
      break;
    case OpKind::add:
      contribute(id, 0, dy);
      contribute(id, 1, dy);
      break;
    case OpKind::layer_norm:
      layer_norm_gradient(id, dy);
      break;
    case OpKind::attention:
      attention_gradient(id, dy);
      break;
    case OpKind::cross_entropy:
      cross_entropy_gradient(id);
      break;
  }
}

void Lowering::matmul_input_gradient(OpId id, ValueId dy) {
  const Op& op = graph_.op(id);
  if (role(op.inputs[0]) != Tensor::Role::activation) {
    return;
  }
  // The product can be added to what is there already, unless that is shared.
  ValueId& sum = gradient_[index(op.inputs[0])];
  const ValueId old = std::exchange(sum, -1);
  const bool accumulate = old >= 0 && unshared(old);
  const ValueId dx = accumulate ? old : activation_gradient(id, 0);
  Instruction& instruction =
      emit(Opcode::matmul_backward_input, gradient_name(id, 0), {dy, value(op.inputs[1])}, {dx});
  instruction.accumulate = accumulate;
  instruction.attributes = op.attributes;
  sum = accumulate ? -1 : old;
  contribute(id, 0, dx);
}

void Lowering::elementwise_gradient(OpId id, Opcode opcode, Operands inputs, ValueId dy) {
  const ValueId dx = unshared(dy) ? dy : activation_gradient(id, 0);
  Instruction& instruction = emit(opcode, gradient_name(id, 0), std::move(inputs), {dx});
  instruction.attributes = graph_.op(id).attributes;
  if (opcode == Opcode::dropout) {
    instruction.purpose = dropout_purpose(id);
  }
  contribute(id, 0, dx);
}

void Lowering::layer_norm_gradient(OpId id, ValueId dy) {
  const Op& op = graph_.op(id);
  const ValueId dx = activation_gradient(id, 0);
  const auto [dweight, accumulate] = parameter_gradient(id, 1);
  const auto [dbias, accumulate_bias] = parameter_gradient(id, 2);
  check(accumulate == accumulate_bias, "{} shares only one of its parameters", graph_.op_name(id));
  const Operands& saved = saved_[index(id)];
  Instruction& instruction = emit(
      Opcode::layer_norm_backward, gradient_name(id, 0),
      {value(op.inputs[0]), value(op.inputs[1]), saved[0], saved[1], dy}, {dx, dweight, dbias});
  instruction.accumulate = accumulate;
  contribute(id, 0, dx);
}

void Lowering::attention_gradient(OpId id, ValueId dy) {
  const Op& op = graph_.op(id);
  const ValueId dqkv = activation_gradient(id, 0);
  emit(Opcode::attention_backward, gradient_name(id, 0),
       {value(op.inputs[0]), value(op.output), saved_[index(id)][0], dy}, {dqkv})
      .attributes = op.attributes;
  contribute(id, 0, dqkv);
}

void Lowering::cross_entropy_gradient(OpId id) {
  const Op& op = graph_.op(id);
  const ValueId logits = value(op.inputs[0]);
  // At the logits' last use, their gradient takes their place.
  const ValueId dlogits =
      consumers_[index(op.inputs[0])] == 1 ? logits : activation_gradient(id, 0);
  emit(Opcode::cross_entropy_backward, gradient_name(id, 0),
       {logits, value(op.inputs[1]), saved_[index(id)][0]}, {dlogits})
      .attributes["scale"] = loss_scale(op);
  contribute(id, 0, dlogits);
}

}  // namespace hidup
