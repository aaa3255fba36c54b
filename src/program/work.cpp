#include "program/work.h"

#include <algorithm>

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
    case Opcode::cross_entropy_stats:
      return forward(OpKind::cross_entropy, in, out[0]);
    case Opcode::expert_matmul:
      return forward(OpKind::expert_matmul, in, out[0]);
    case Opcode::expert_matmul_backward_input:
      return forward(OpKind::expert_matmul, {out[0], in[1]}, in[0]);
    case Opcode::expert_matmul_backward_weight:
      return forward(OpKind::expert_matmul, {in[0], out[0]}, in[1]);
    case Opcode::route:
      return forward(OpKind::route, in, out[0]);
    case Opcode::gate:
      return forward(OpKind::gate, in, out[0]);
    case Opcode::gate_backward:
      return 2.0 * forward(OpKind::gate, in, in[2]);
    case Opcode::combine:
      return forward(OpKind::combine, in, out[0]);
    case Opcode::combine_backward:  // two products instead of one
      return 2.0 * 2.0 * static_cast<double>(elements(in[3]) * in[1].back());
    case Opcode::dispatch_backward:
      return count(out[0]);
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
    case Opcode::expert_bias:
    case Opcode::expert_bias_backward:
    case Opcode::expert_counts:
    case Opcode::expert_load:
      return count(in[0]);
    case Opcode::adam: {
      double total = 0.0;
      for (const Shape& shape : out) {
        total += 4.0 * count(shape);  // about 12 per parameter, which has three outputs
      }
      return total;
    }
    case Opcode::cross_entropy_merge:
      return 4.0 * count(in[0]);
    case Opcode::dispatch:
    case Opcode::slice:
    case Opcode::place:
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::broadcast:
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
      if (program.value(value).holds.empty()) {
        shapes.push_back(program.local_shape(value, 0));
      }
    }
    return shapes;
  };
  const auto bytes_of = [&](const std::vector<ValueId>& values) {
    double bytes = 0.0;
    for (const ValueId value : values) {
      if (program.value(value).holds.empty()) {
        bytes += static_cast<double>(program.local_bytes(value, 0));
      }
    }
    return bytes;
  };
  for (Instruction& instruction : program.instructions) {
    const double in = bytes_of(instruction.inputs);
    const double out = bytes_of(instruction.outputs);
    instruction.flops =
        flops_of(instruction, shapes_of(instruction.inputs), shapes_of(instruction.outputs));
    instruction.bytes = collective_of(instruction.opcode).empty() ? in + out : std::max(in, out);
  }
}

}  // namespace hidup
