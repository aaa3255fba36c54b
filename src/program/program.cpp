#include "program/program.h"

#include <array>

namespace hidup {

std::string_view name_of(StreamKind stream) {
  return stream == StreamKind::compute ? "compute" : "comm";
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, 3> kNames = {"forward", "backward", "update"};
  return kNames.at(static_cast<size_t>(phase));
}

bool adds_to(const Instruction& instruction, size_t output) {
  return instruction.accumulate &&
         spec_of(instruction.opcode).signature.outputs.at(output, instruction.outputs.size()).sum;
}

Region Program::region(ValueId id, int64_t rank) const {
  return region_of(value(id).shape, value(id).layout, mesh, rank, value(id).batch);
}

Shape Program::local_shape(ValueId id, int64_t rank) const {
  return shape_of(region(id, rank));
}

int64_t Program::local_bytes(ValueId id, int64_t rank) const {
  if (!value(id).holds.empty()) {
    int64_t bytes = 0;
    for (const ValueId held : value(id).holds) {
      bytes += local_bytes(held, rank);
    }
    return bytes;
  }
  const Shape shape = local_shape(id, rank);
  const int64_t count = !value(id).padded_rows || elements(shape) == 0
                            ? elements(shape)
                            : elements(shape) / shape.back() * row_stride(id, rank);
  return count * size_of(value(id).dtype);
}

int64_t Program::row_stride(ValueId id, int64_t rank) const {
  const int64_t row = local_shape(id, rank).back();
  return value(id).padded_rows ? (row + kRowMultiple - 1) / kRowMultiple * kRowMultiple : row;
}

DType element_dtype(const Program& program, const Instruction& instruction) {
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    for (const ValueId operand : *operands) {
      const DType dtype = program.value(operand).dtype;
      if (is_floating(dtype) && dtype != DType::f32) {
        return dtype;
      }
    }
  }
  return DType::f32;
}

}  // namespace hidup
