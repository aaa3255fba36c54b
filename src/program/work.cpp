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

// Adds all that instructions of the same work have in common but their operands.
void add_meaning(const Instruction& instruction, Numbers& numbers) {
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
  for_each_attribute(instruction.attributes, [&](std::string_view name, double value) {
    numbers.add(name);
    numbers.add(value);
  });
}

void add_operands(const Instruction& instruction, const std::vector<int>& kinds,
                  const std::vector<int>* numbers_of_kinds, Numbers& numbers) {
  for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
    numbers.add(operands->size());
    for (const ValueId operand : *operands) {
      const int kind = kinds[static_cast<size_t>(operand)];
      numbers.add(numbers_of_kinds ? (*numbers_of_kinds)[static_cast<size_t>(kind)] : kind);
    }
  }
}

void add_all(const std::vector<size_t>& axes, Numbers& numbers) {
  numbers.add(axes.size());
  for (const size_t axis : axes) {
    numbers.add(axis);
  }
}

}  // namespace

WorkKinds::WorkKinds(const Program& program) : program_(program) {
  find_values();
  find_instructions();
}

// Buffers follow the values that they hold.
void WorkKinds::find_values() {
  Numbers numbers;
  const auto find = [&](ValueId id) {
    const Value& value = program_.value(id);
    numbers.add(value.dtype);
    numbers.add(value.padded_rows);
    add_packed_rows(numbers, value.packed);
    numbers.add(value.shape.size());
    for (const int64_t extent : value.shape) {
      numbers.add(extent);
    }
    for (const Placement& placement : value.layout) {
      numbers.add(placement.kind);
      numbers.add(placement.dim);
      numbers.add(placement.share.number());
    }
    numbers.add(value.batch.dim);
    numbers.add(value.batch.start);
    numbers.add(value.batch.global);
    add_all(value.exchanged_along, numbers);
    add_all(value.summed_along, numbers);
    for (const ValueId held : value.holds) {
      numbers.add(value_kind_[static_cast<size_t>(held)]);
    }
    value_kind_[static_cast<size_t>(id)] = numbers.take();
    if (numbers.count() > std::ssize(first_value_)) {
      first_value_.push_back(id);
    }
  };
  const auto count = static_cast<ValueId>(program_.values.size());
  for (ValueId id = 0; id < count; ++id) {
    value_kind_.push_back(-1 - id);  // unlike all others until found
  }
  for (const bool buffers : {false, true}) {
    for (ValueId id = 0; id < count; ++id) {
      if (program_.value(id).holds.empty() != buffers) {
        find(id);
      }
    }
  }
}

void WorkKinds::find_instructions() {
  Numbers meanings;
  Numbers numbers;
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    add_meaning(instruction, meanings);
    const int meaning = meanings.take();
    numbers.add(meaning);
    for (const int64_t rank : instruction.group) {
      numbers.add(rank);
    }
    add_operands(instruction, value_kind_, nullptr, numbers);
    kinds_.number.push_back(numbers.take());
    if (numbers.count() > std::ssize(kinds_.first)) {
      kinds_.first.push_back(static_cast<int>(i));
      means_.push_back(meaning);
    }
  }
}

// Numbers the kinds of values, so that kinds with equal parts on the rank have equal numbers.
std::vector<int> WorkKinds::alike_values(int64_t rank) const {
  std::vector<int> alike;
  alike.reserve(first_value_.size());
  Numbers numbers;
  for (const ValueId id : first_value_) {
    const Value& value = program_.value(id);
    numbers.add(value.dtype);
    numbers.add(value.holds.size());
    numbers.add(value.padded_rows);
    numbers.add(value.packed.has_value());
    if (value.holds.empty()) {
      const Region region = program_.region(id, rank);
      for (int d = 0; d < region.dims; ++d) {
        numbers.add(region.extent[d]);
      }
      numbers.add(value.packed ? program_.expected_bytes(id, rank) : 0);
    } else {
      numbers.add(program_.expected_bytes(id, rank));
    }
    alike.push_back(numbers.take());
  }
  return alike;
}

AlikeInstructions WorkKinds::on(int64_t rank) const {
  const std::vector<int> values = alike_values(rank);
  AlikeInstructions alike;
  std::vector<int> of_kind;
  Numbers numbers;
  for (size_t kind = 0; kind < kinds_.first.size(); ++kind) {
    const int first = kinds_.first[kind];
    const Instruction& instruction = program_.instructions[static_cast<size_t>(first)];
    numbers.add(means_[kind]);
    numbers.add(skips(program_, instruction, rank));
    add_operands(instruction, value_kind_, &values, numbers);
    of_kind.push_back(numbers.take());
    if (numbers.count() > std::ssize(alike.first)) {
      alike.first.push_back(first);
    }
  }
  alike.number.reserve(kinds_.number.size());
  for (const int kind : kinds_.number) {
    alike.number.push_back(of_kind[static_cast<size_t>(kind)]);
  }
  return alike;
}

std::vector<int64_t> WorkKinds::bytes_on(int64_t rank) const {
  std::vector<int64_t> bytes(first_value_.size());
  std::ranges::transform(first_value_, bytes.begin(),
                         [&](ValueId id) { return program_.expected_bytes(id, rank); });
  return bytes;
}

AlikeInstructions alike_instructions(const Program& program, int64_t rank) {
  return WorkKinds(program).on(rank);
}

Work work_of(const Program& program, const Instruction& instruction, int64_t rank) {
  return work_of(program, instruction, rank,
                 [&](ValueId id) { return program.expected_shape(id, rank); });
}

Work work_of(const Program& program, const Instruction& instruction, int64_t rank,
             const std::function<Shape(ValueId)>& shape_of_part) {
  if (skips(program, instruction, rank)) {
    return {.sizes = {}, .dtype = element_dtype(program, instruction)};
  }
  std::vector<Shape> in;
  std::vector<Shape> out;
  // Adds the shape of the rank's part; returns its bytes.
  const auto add = [&](std::vector<Shape>& shapes, ValueId value) {
    shapes.push_back(shape_of_part(value));
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
