#include "program/work.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "graph/flops.h"
#include "program/dtypes.h"

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
    case Opcode::matmul_bias:
      return forward(OpKind::matmul, in, out[0]) + count(out[0]);
    case Opcode::matmul_bias_relu:
      return forward(OpKind::matmul, in, out[0]) + 2.0 * count(out[0]);
    case Opcode::matmul_bias_gelu:
      return forward(OpKind::matmul, in, out[0]) + count(out[0]) +
             forward(OpKind::gelu, {out[1]}, out[0]);
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
    case Opcode::residual_norm:  // dropout and the sum are three more per element
      return forward(OpKind::layer_norm, {in[0], in[2], in[3]}, out[0]) + 3.0 * count(in[0]);
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
    case Opcode::gelu:
      return forward(OpKind::gelu, in, out[0]);
    case Opcode::gelu_backward:
      return 2.0 * forward(OpKind::gelu, in, out[0]);
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
    case Opcode::convert:
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

// Elements of the first `count` dimensions, and of the rest.
int64_t leading(const Shape& shape, int64_t count) {
  return elements(Shape(shape.begin(), shape.begin() + count));
}
int64_t trailing(const Shape& shape, int64_t count) {
  return elements(Shape(shape.begin() + count, shape.end()));
}

// Of the product x [rows, summed] * weight [summed, columns] -> y [rows, columns].
std::vector<int64_t> product_sizes(const Instruction& instruction, const Shape& x, const Shape& y) {
  const auto summed_dims = static_cast<int64_t>(instruction.attributes.at("contract"));
  const int64_t row_dims = static_cast<int64_t>(x.size()) - summed_dims;
  return {leading(x, row_dims), trailing(x, row_dims), trailing(y, row_dims)};
}

// Of buffers [batch, experts, capacity, column].
std::vector<int64_t> expert_sizes(const Shape& x, const Shape& y) {
  return {x[1], x[0] * x[2], x[3], y[3]};
}

// Of [batch, sequence, ...] with lse [batch, heads, sequence].
std::vector<int64_t> attention_sizes(const Shape& y, const Shape& lse) {
  const int64_t heads = std::max<int64_t>(lse[1], 1);
  return {lse[0] * lse[1], lse[2], trailing(y, 2) / heads};
}

std::vector<int64_t> sizes_of(const Instruction& instruction, const Shapes& in, const Shapes& out) {
  switch (instruction.opcode) {
    case Opcode::matmul:
    case Opcode::matmul_bias:
    case Opcode::matmul_bias_relu:
    case Opcode::matmul_bias_gelu:
      return product_sizes(instruction, in[0], out[0]);
    case Opcode::matmul_backward_input:
      return product_sizes(instruction, out[0], in[0]);
    case Opcode::matmul_backward_weight:
      return product_sizes(instruction, in[0], in[1]);
    case Opcode::expert_matmul:
      return expert_sizes(in[0], out[0]);
    case Opcode::expert_matmul_backward_input:
      return expert_sizes(out[0], in[0]);
    case Opcode::expert_matmul_backward_weight:
      return expert_sizes(in[0], in[1]);
    case Opcode::attention:
      return attention_sizes(out[0], out[1]);
    case Opcode::attention_backward:
      return attention_sizes(in[1], in[2]);
    case Opcode::adam:
    case Opcode::convert:
    case Opcode::squared_norm: {
      int64_t total = 0;
      for (const Shape& shape : in) {
        total += elements(shape);
      }
      return {static_cast<int64_t>(in.size()), total};
    }
    default: {
      Shape largest = out.empty() ? in.at(0) : out[0];
      for (const Shape& shape : in) {
        largest = elements(shape) > elements(largest) ? shape : largest;
      }
      const int64_t columns = largest.empty() ? 1 : largest.back();
      return {columns == 0 ? 0 : elements(largest) / columns, columns};
    }
  }
}

// The buffers of messages are not counted: their sizes follow from the values.
template <typename Use>
void for_values(const Program& program, const std::vector<ValueId>& values, Use use) {
  for (const ValueId value : values) {
    if (program.value(value).holds.empty()) {
      use(value);
    }
  }
}

// Numbers what is equal alike, from 0.
class Numbers {
 public:
  template <typename Part>
  void add(const Part& part) {
    key_.append(reinterpret_cast<const char*>(&part), sizeof(part));
  }
  void add(const std::string& text) {
    add(text.size());
    key_ += text;
  }
  // Of what has been added since the last call.
  int take() {
    const int number = numbers_.try_emplace(key_, static_cast<int>(numbers_.size())).first->second;
    key_.clear();
    return number;
  }
  int count() const { return static_cast<int>(numbers_.size()); }

 private:
  std::string key_;
  std::unordered_map<std::string, int> numbers_;
};

// Per value: by what its rank has of it.
std::vector<int> alike_values(const Program& program, int64_t rank) {
  std::vector<int> alike;
  alike.reserve(program.values.size());
  Numbers numbers;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    numbers.add(value.dtype);
    numbers.add(value.holds.size());
    if (value.holds.empty()) {
      const Region region = program.region(id, rank);
      for (int d = 0; d < region.dims; ++d) {
        numbers.add(region.extent[d]);
      }
    } else {
      numbers.add(program.local_bytes(id, rank));
    }
    alike.push_back(numbers.take());
  }
  return alike;
}

}  // namespace

AlikeInstructions alike_instructions(const Program& program, int64_t rank) {
  const std::vector<int> values = alike_values(program, rank);
  AlikeInstructions alike;
  alike.number.reserve(program.instructions.size());
  Numbers numbers;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    numbers.add(instruction.opcode);
    numbers.add(instruction.axis);
    numbers.add(instruction.attributes.size());
    for (const auto& [name, attribute] : instruction.attributes) {
      numbers.add(name);
      numbers.add(attribute);
    }
    for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
      numbers.add(operands->size());
      for (const ValueId operand : *operands) {
        numbers.add(values[static_cast<size_t>(operand)]);
      }
    }
    alike.number.push_back(numbers.take());
    if (numbers.count() > static_cast<int>(alike.first.size())) {
      alike.first.push_back(static_cast<int>(i));
    }
  }
  return alike;
}

bool is_product(Opcode opcode) {
  switch (opcode) {
    case Opcode::matmul:
    case Opcode::matmul_bias:
    case Opcode::matmul_bias_relu:
    case Opcode::matmul_bias_gelu:
    case Opcode::matmul_backward_input:
    case Opcode::matmul_backward_weight:
    case Opcode::expert_matmul:
    case Opcode::expert_matmul_backward_input:
    case Opcode::expert_matmul_backward_weight:
    case Opcode::attention:
    case Opcode::attention_backward:
      return true;
    default:
      return false;
  }
}

Work work_of(const Program& program, const Instruction& instruction, int64_t rank) {
  Shapes in;
  Shapes out;
  // Adds the shape of the rank's part; returns its bytes.
  const auto add = [&](Shapes& shapes, ValueId value) {
    shapes.push_back(program.local_shape(value, rank));
    return static_cast<double>(elements(shapes.back()) * size_of(program.value(value).dtype));
  };
  double in_bytes = 0.0;
  double out_bytes = 0.0;
  for_values(program, instruction.inputs, [&](ValueId value) { in_bytes += add(in, value); });
  for_values(program, instruction.outputs, [&](ValueId value) { out_bytes += add(out, value); });
  return {.flops = flops_of(instruction, in, out),
          .bytes = collective_of(instruction.opcode).empty() ? in_bytes + out_bytes
                                                             : std::max(in_bytes, out_bytes),
          .sizes = sizes_of(instruction, in, out),
          .dtype = element_dtype(program, instruction)};
}

void estimate_work(Program& program) {
  const AlikeInstructions alike = alike_instructions(program, 0);
  std::vector<Work> works;
  works.reserve(alike.first.size());
  for (const int first : alike.first) {
    works.push_back(work_of(program, program.instructions[static_cast<size_t>(first)], 0));
  }
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Work& work = works[static_cast<size_t>(alike.number[i])];
    program.instructions[i].flops = work.flops;
    program.instructions[i].bytes = work.bytes;
  }
}

}  // namespace hidup
