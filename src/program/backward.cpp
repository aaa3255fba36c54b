#include <algorithm>
#include <utility>

#include "core/check.h"
#include "graph/operation.h"
#include "program/dtypes.h"
#include "program/lowering.h"

namespace hidup {

void Lowering::backward(OpId id) {
  const Op& op = graph_.op(id);
  if (spec_of(op.kind).integer_output) {
    return;
  }
  phase_ = Phase::backward;
  const Operands& in = lane().operands[index(id)];
  const Operands& saved = lane().saved[index(id)];
  const ValueId dy = output_gradient(id);
  check(dy >= 0 || op.kind == OpKind::cross_entropy, "{} has no use", graph_.op_name(id));
  switch (op.kind) {
    case OpKind::embedding:
      emit_gradient(id, 1, Opcode::embedding_backward, {in[0], dy});
      break;
    case OpKind::matmul:
      // The input's first: it may have to be sent while the weight's is computed.
      matmul_input_gradient(id, Opcode::matmul_backward_input, {dy, in[1]});
      emit_gradient(id, 1, Opcode::matmul_backward_weight, {in[0], dy});
      break;
    case OpKind::bias:
      emit_gradient(id, 1, Opcode::bias_backward, {dy});
      contribute(id, 0, dy);
      break;
    case OpKind::relu:
      elementwise_gradient(id, Opcode::relu_backward, {copies(op.output)[0], dy}, dy);
      break;
    case OpKind::gelu:
      elementwise_gradient(id, Opcode::gelu_backward, {in[0], dy}, dy);
      break;
    case OpKind::dropout:
      elementwise_gradient(id, Opcode::dropout, {dy}, dy);
      break;
    case OpKind::positions:
      contribute(id, 0, dy);
      break;
    case OpKind::add:
      contribute(id, 0, dy);
      contribute(id, 1, dy);
      break;
    case OpKind::layer_norm:
      layer_norm_gradient(id, dy);
      break;
    case OpKind::attention:
      emit_gradient(id, 0, Opcode::attention_backward, {in[0], copies(op.output)[0], saved[0], dy});
      break;
    case OpKind::cross_entropy:
      cross_entropy_gradient(id);
      break;
    case OpKind::gate:
      emit_gradient(id, 0, Opcode::gate_backward, {in[0], in[1], dy});
      break;
    case OpKind::dispatch:
      emit_gradient(id, 0, Opcode::dispatch_backward, {in[1], dy});
      break;
    case OpKind::expert_matmul:
      emit_gradient(id, 0, Opcode::expert_matmul_backward_input, {dy, in[1], in[2]});
      emit_gradient(id, 1, Opcode::expert_matmul_backward_weight, {in[0], dy, in[2]});
      break;
    case OpKind::expert_bias:
      emit_gradient(id, 1, Opcode::expert_bias_backward, {dy, in[2]});
      contribute(id, 0, dy);
      break;
    case OpKind::combine:
      combine_gradient(id, dy);
      break;
    case OpKind::route:
    case OpKind::expert_counts:
      break;
  }
}

Instruction& Lowering::emit_gradient(OpId op, size_t input, Opcode opcode, Operands inputs) {
  const TensorId id = graph_.op(op).inputs[input];
  const bool f32 = operand_dtypes(opcode).ends_with('f');
  const bool direct =
      role(id) == Tensor::Role::parameter && (f32 || graph_.tensor(id).dtype == DType::f32);
  const Target target =
      direct ? target_of(op, input) : Target{activation_gradient(op, input, f32), false};
  Instruction& instruction = emit(opcode, gradient_name(id), std::move(inputs), {target.value});
  const size_t at = lane().instructions.size() - 1;
  instruction.accumulate = target.accumulate;
  instruction.attributes = graph_.op(op).attributes;
  if (!direct) {
    contribute(op, input, target.value);
  }
  return lane().instructions[at];
}

void Lowering::matmul_input_gradient(OpId id, Opcode opcode, Operands inputs) {
  const Op& op = graph_.op(id);
  const Layout layout = gradient_layout(ways(id), 0);
  std::vector<Sum>& sums = lane().gradient[index(op.inputs[0])];
  const auto sum = std::ranges::find(sums, layout, &Sum::layout);
  if (sum != sums.end()) {
    // The product can be added to what is there already, unless that is shared.
    if (holders_.at(sum->value) == 1) {
      Instruction& instruction =
          emit(opcode, gradient_name(op.inputs[0]), std::move(inputs), {sum->value});
      instruction.accumulate = true;
      instruction.attributes = op.attributes;
      return;
    }
  }
  emit_gradient(id, 0, opcode, std::move(inputs));
}

void Lowering::elementwise_gradient(OpId id, Opcode opcode, Operands inputs, ValueId dy) {
  const ValueId dx = unshared(dy) ? dy : activation_gradient(id, 0);
  Instruction& instruction =
      emit(opcode, gradient_name(graph_.op(id).inputs[0]), std::move(inputs), {dx});
  instruction.attributes = graph_.op(id).attributes;
  if (opcode == Opcode::dropout) {
    instruction.purpose = dropout_purpose(id);
  }
  contribute(id, 0, dx);
}

void Lowering::layer_norm_gradient(OpId id, ValueId dy) {
  const std::vector<TensorId>& tensors = graph_.op(id).inputs;
  const Operands& in = lane().operands[index(id)];
  const Operands& saved = lane().saved[index(id)];
  // One instruction writes both parameters' gradients, or adds to both.
  const bool direct = consumers_[index(tensors[1])] == 1 && consumers_[index(tensors[2])] == 1;
  const ValueId dx = activation_gradient(id, 0);
  const Target dweight =
      direct ? target_of(id, 1) : Target{activation_gradient(id, 1, true), false};
  const Target dbias = direct ? target_of(id, 2) : Target{activation_gradient(id, 2, true), false};
  emit(Opcode::layer_norm_backward, gradient_name(tensors[0]),
       {in[0], in[1], saved[0], saved[1], dy}, {dx, dweight.value, dbias.value})
      .accumulate = dweight.accumulate;
  for (const auto& [input, target] : {std::pair{size_t{1}, dweight}, {size_t{2}, dbias}}) {
    if (!direct) {
      contribute(id, input, target.value);
    }
  }
  contribute(id, 0, dx);
}

void Lowering::combine_gradient(OpId id, ValueId dy) {
  const Operands& in = lane().operands[index(id)];
  const ValueId dbuffer = activation_gradient(id, 0);
  const ValueId dweights = activation_gradient(id, 2);
  emit(Opcode::combine_backward, gradient_name(graph_.op(id).inputs[0]), {in[0], in[1], in[2], dy},
       {dbuffer, dweights})
      .attributes = graph_.op(id).attributes;
  contribute(id, 0, dbuffer);
  contribute(id, 2, dweights);
}

void Lowering::cross_entropy_gradient(OpId id) {
  const TensorId logits = graph_.op(id).inputs[0];
  const Operands& in = lane().operands[index(id)];
  // At the logits' last use, their gradient takes their place.
  const bool overwrite = role(logits) == Tensor::Role::activation &&
                         consumers_[index(logits)] == 1 && !needed_by_producer(logits);
  const ValueId dlogits = overwrite ? in[0] : activation_gradient(id, 0);
  emit(Opcode::cross_entropy_backward, gradient_name(logits),
       {in[0], in[1], lane().saved[index(id)][0]}, {dlogits})
      .attributes["scale"] = loss_scale(graph_.op(id));
  contribute(id, 0, dlogits);
}

}  // namespace hidup
