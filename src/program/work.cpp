#include "program/work.h"

#include "graph/operation.h"

namespace hidup {
namespace {

using Shapes = std::vector<Shape>;

// Flops with all inputs in, outputs out; backward passes by their forward pass where
// they do the same products.
double flops_of(const Instruction& instruction, const Shapes& in, const Shapes& out) {
  const auto forward = [&](OpKind kind, const Shapes& inputs, const Shape& output) {
    return forward_flops(kind, inputs, output, instruction.attributes);
  };
  const auto count = [](const Shape& shape) { return static_cast<double>(elements(shape)); };
  switch (instruction.opcode) {
    case Opcode::embedding:
      return forward(OpKind::embedding, in, out[0]);
    case Opcode::matmul:
      return forward(OpKind::matmul, in, out[0]);
    case Opcode::matmul_backward_input:
      return forward(OpKind::matmul, {out[0], in[1]}, in[0]);
    case Opcode::matmul_backward_weight:
      return forward(OpKind::matmul, {in[0], out[0]}, in[1]);
    case Opcode::attention:
      return forward(OpKind::attention, in, out[0]);
    case Opcode::attention_backward:
      // Five products (scores again, dV, dP, dQ, dK) where the forward pass has two.
      return 2.5 * forward(OpKind::attention, in, in[1]);
    case Opcode::layer_norm:
      return forward(OpKind::layer_norm, in, out[0]);
    case Opcode::layer_norm_backward:
      return 2.0 * forward(OpKind::layer_norm, in, out[0]);
    case Opcode::cross_entropy:
      return forward(OpKind::cross_entropy, in, out[0]);
    case Opcode::dropout:
    case Opcode::squared_norm: {
      double total = 0.0;
      for (const Shape& shape : in) {
        total += 2.0 * count(shape);
      }
      return total;
    }
    case Opcode::embedding_backward:
      return count(in[1]);
    case Opcode::cross_entropy_backward:
      return 3.0 * count(in[0]);
    case Opcode::positions:
    case Opcode::bias:
    case Opcode::bias_backward:
    case Opcode::relu:
    case Opcode::relu_backward:
    case Opcode::add:
      return count(in[0]);
    case Opcode::adam: {
      double total = 0.0;
      for (const Shape& shape : out) {
        total += 4.0 * count(shape);  // about 12 per parameter, which has three outputs
      }
      return total;
    }
    case Opcode::all_reduce:
    case Opcode::clip_scale:
      break;
  }
  return 0.0;
}

}  // namespace

void estimate_work(Program& program) {
  const auto shapes_of = [&](const std::vector<ValueId>& values) {
    Shapes shapes;
    for (const ValueId value : values) {
      shapes.push_back(program.local_shape(value, 0));
    }
    return shapes;
  };
  for (Instruction& instruction : program.instructions) {
    const bool collective = !collective_of(instruction.opcode).empty();
    instruction.flops =
        flops_of(instruction, shapes_of(instruction.inputs), shapes_of(instruction.outputs));
    instruction.bytes = 0.0;
    for (const ValueId value : instruction.inputs) {
      instruction.bytes += static_cast<double>(program.local_bytes(value, 0));
    }
    for (const ValueId value : collective ? std::vector<ValueId>{} : instruction.outputs) {
      instruction.bytes += static_cast<double>(program.local_bytes(value, 0));
    }
  }
}

}  // namespace hidup
