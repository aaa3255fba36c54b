#include "program/work.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/key.h"

namespace hidup {
namespace {

// Message buffers do not count, because their sizes follow from the values.
template <typename Use>
void for_values(const Program& program, const std::vector<ValueId>& values, Use use) {
  for (const ValueId value : values) {
    if (program.value(value).holds.empty()) {
      use(value);
    }
  }
}

// Numbers distinct keys from 0.
class Numbers {
 public:
  template <typename Part>
  void add(const Part& part) {
    key_.add(part);
  }
  // Returns the number of the key added since the last call.
  int take() {
    const int number =
        numbers_.try_emplace(key_.text(), static_cast<int>(numbers_.size())).first->second;
    key_.clear();
    return number;
  }
  int count() const { return static_cast<int>(numbers_.size()); }

 private:
  MapKey key_;
  std::unordered_map<std::string, int> numbers_;
};

// Numbers values per rank, so that values with equal parts have equal numbers.
std::vector<int> alike_values(const Program& program, int64_t rank) {
  std::vector<int> alike;
  alike.reserve(program.values.size());
  Numbers numbers;
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.value(id);
    numbers.add(value.dtype);
    numbers.add(value.holds.size());
    numbers.add(value.padded_rows);
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
    numbers.add(instruction.inner_axes.size());
    for (const int axis : instruction.inner_axes) {
      numbers.add(axis);
    }
    numbers.add(instruction.flat);
    numbers.add(instruction.algorithms.size());
    for (const CollectiveAlgorithm algorithm : instruction.algorithms) {
      numbers.add(algorithm);
    }
    numbers.add(instruction.sent_as ? 1 + static_cast<int>(*instruction.sent_as) : 0);
    numbers.add(instruction.group.size());
    numbers.add(skips(program, instruction, rank));
    for_each_attribute(instruction.attributes, [&](std::string_view name, double value) {
      numbers.add(name);
      numbers.add(value);
    });
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

Work work_of(const Program& program, const Instruction& instruction, int64_t rank) {
  if (skips(program, instruction, rank)) {
    return {.sizes = {}, .dtype = element_dtype(program, instruction)};
  }
  std::vector<Shape> in;
  std::vector<Shape> out;
  // Adds the shape of the rank's part; returns its bytes.
  const auto add = [&](std::vector<Shape>& shapes, ValueId value) {
    shapes.push_back(program.local_shape(value, rank));
    return static_cast<double>(elements(shapes.back()) * size_of(program.value(value).dtype));
  };
  double in_bytes = 0.0;
  double out_bytes = 0.0;
  for_values(program, instruction.inputs, [&](ValueId value) { in_bytes += add(in, value); });
  for_values(program, instruction.outputs, [&](ValueId value) { out_bytes += add(out, value); });
  const OpcodeSpec& spec = spec_of(instruction.opcode);
  return {.flops = spec.flops(instruction.attributes, in, out),
          .bytes = collective_of(instruction.opcode).empty()
                       ? in_bytes + out_bytes
                       : sent_part(program, instruction) * std::max(in_bytes, out_bytes),
          .sizes = spec.sizes(instruction.attributes, in, out),
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
