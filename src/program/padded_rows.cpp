#include "program/padded_rows.h"

#include <algorithm>
#include <string_view>

#include "graph/flops.h"

namespace hidup {
namespace {

// Calls use(value, operand) for inputs and outputs except message buffers, which come last.
template <typename Use>
void for_operands(const Program& program, const Instruction& instruction, Use use) {
  const Signature& signature = spec_of(instruction.opcode).signature;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    use(instruction.inputs[i], signature.inputs.at(i, instruction.inputs.size()));
  }
  const auto written = static_cast<size_t>(std::ranges::count_if(
      instruction.outputs, [&](ValueId id) { return program.value(id).holds.empty(); }));
  for (size_t i = 0; i < written; ++i) {
    use(instruction.outputs[i], signature.outputs.at(i, written));
  }
}

// Returns true where rows whose length depends on a weight or a bias have one dimension.
bool rows_have_one_dimension(const Program& program, const Instruction& instruction) {
  bool one = true;
  for_operands(program, instruction, [&](ValueId id, const Operand& operand) {
    const Shape& shape = program.value(id).shape;
    if (operand.name == "weight" || operand.name == "dweight") {
      one &= weight_shape(shape, instruction.as<MatmulAttributes>()).columns.size() == 1;
    } else if (operand.name == "bias" || operand.name == "dbias") {
      one &= shape.size() == 1;
    }
  });
  return one;
}

bool takes_padded_rows(Opcode opcode) {
  const Signature& signature = spec_of(opcode).signature;
  return std::ranges::any_of(signature.inputs.list(), &Operand::padded) ||
         std::ranges::any_of(signature.outputs.list(), &Operand::padded);
}

class Padding {
 public:
  explicit Padding(Program& program) : program_(program), padded_(program.values.size(), false) {
    for (const Instruction& instruction : program.instructions) {
      paddable_.push_back(paddable_operands(program, instruction));
    }
  }

  void run() {
    for (const std::vector<ValueId>& operands : paddable_) {
      set(operands, true);
    }
    for (size_t i = 0; i < paddable_.size(); ++i) {
      leave_other_operands(program_.instructions[i], paddable_[i]);
    }
    for (size_t v = 0; v < padded_.size(); ++v) {
      padded_[v] = padded_[v] && is_worth_it(static_cast<ValueId>(v));
    }
    while (leave_lone_operands()) {
    }
    for (size_t v = 0; v < padded_.size(); ++v) {
      program_.values[v].padded_rows = padded_[v];
    }
  }

 private:
  void set(const std::vector<ValueId>& values, bool padded) {
    for (const ValueId id : values) {
      padded_[static_cast<size_t>(id)] = padded;
    }
  }

  // Unpads the values that the instruction takes as operands of another kind.
  void leave_other_operands(const Instruction& instruction, const std::vector<ValueId>& paddable) {
    for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId id : *operands) {
        if (padded_[static_cast<size_t>(id)] && std::ranges::find(paddable, id) == paddable.end()) {
          padded_[static_cast<size_t>(id)] = false;
        }
      }
    }
  }

  bool is_worth_it(ValueId id) const {
    const Value& value = program_.value(id);
    if (value.persistent() || value.shape.empty() || value.shape.back() <= kLongestDenseRow) {
      return false;
    }
    for (int64_t rank = 0; rank < ranks_of(program_.mesh); ++rank) {
      const int64_t row = program_.local_shape(id, rank).back();
      if (row > kLongestDenseRow && row % kRowMultiple != 0) {
        return true;
      }
    }
    return false;
  }

  // Unpads all operands of instructions with an unpadded one. Returns true if any changed.
  bool leave_lone_operands() {
    const auto is_padded = [&](ValueId id) { return padded_[static_cast<size_t>(id)]; };
    bool found = false;
    for (const std::vector<ValueId>& operands : paddable_) {
      if (std::ranges::any_of(operands, is_padded) && !std::ranges::all_of(operands, is_padded)) {
        set(operands, false);
        found = true;
      }
    }
    return found;
  }

  Program& program_;
  std::vector<std::vector<ValueId>> paddable_;  // per instruction
  std::vector<bool> padded_;                    // per value
};

}  // namespace

std::vector<ValueId> paddable_operands(const Program& program, const Instruction& instruction) {
  std::vector<ValueId> found;
  std::vector<ValueId> others;
  if (takes_padded_rows(instruction.opcode) && rows_have_one_dimension(program, instruction)) {
    for_operands(program, instruction, [&](ValueId id, const Operand& operand) {
      (operand.padded ? found : others).push_back(id);
    });
  }
  std::erase_if(found, [&](ValueId id) { return std::ranges::find(others, id) != others.end(); });
  return found;
}

void pad_rows(Program& program) {
  Padding(program).run();
}

}  // namespace hidup
