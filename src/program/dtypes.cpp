#include "program/dtypes.h"

#include <vector>

#include "core/check.h"

namespace hidup {

std::string_view operand_dtypes(Opcode opcode) {
  switch (opcode) {
    case Opcode::embedding:
      return "iT>T";
    case Opcode::embedding_backward:
      return "iT>f";
    case Opcode::matmul:
    case Opcode::matmul_backward_input:
    case Opcode::bias:
    case Opcode::relu_backward:
    case Opcode::gelu_backward:
    case Opcode::add:
      return "TT>T";
    case Opcode::matmul_bias:
    case Opcode::matmul_bias_relu:
      return "TTT>T";
    case Opcode::matmul_bias_gelu:
      return "TTT>TT";
    case Opcode::matmul_backward_weight:
      return "TT>f";
    case Opcode::bias_backward:
      return "T>f";
    case Opcode::positions:
    case Opcode::relu:
    case Opcode::gelu:
    case Opcode::dropout:
      return "T>T";
    case Opcode::layer_norm:
      return "TTT>Tff";
    case Opcode::residual_norm:
      return "TTTT>TTff";
    case Opcode::layer_norm_backward:
      return "TTffT>Tff";
    case Opcode::attention:
      return "T>Tf";
    case Opcode::attention_backward:
      return "TTfT>T";
    case Opcode::cross_entropy:
      return "Ti>ff";
    case Opcode::cross_entropy_stats:
      return "Ti>f";
    case Opcode::cross_entropy_merge:
      return "f>ff";
    case Opcode::cross_entropy_backward:
      return "Tif>T";
    case Opcode::route:
      return "T>i";
    case Opcode::expert_load:
      return "i>f";
    case Opcode::gate:
      return "Ti>f";
    case Opcode::gate_backward:
      return "Tif>T";
    case Opcode::expert_counts:
      return "i>i";
    case Opcode::dispatch:
      return "Ti>T";
    case Opcode::dispatch_backward:
      return "iT>T";
    case Opcode::expert_matmul:
    case Opcode::expert_matmul_backward_input:
    case Opcode::expert_bias:
      return "TTi>T";
    case Opcode::expert_matmul_backward_weight:
      return "TTi>f";
    case Opcode::expert_bias_backward:
      return "Ti>f";
    case Opcode::combine:
      return "Tif>T";
    case Opcode::combine_backward:
      return "TifT>Tf";
    case Opcode::squared_norm:
      return "f*>f";
    case Opcode::clip_scale:
      return "f>ff";
    case Opcode::adam:
      return "f*>f*";
    case Opcode::slice:
    case Opcode::place:
    case Opcode::all_reduce:
    case Opcode::all_gather:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::broadcast:
    case Opcode::convert:
      return "";
  }
  fail(ExitCode::internal, "an instruction of unknown kind");
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

namespace {

class DTypeCheck {
 public:
  DTypeCheck(const Program& program, const Instruction& instruction)
      : program_(program), instruction_(instruction) {}

  // One side of operand_dtypes().
  void operands(const std::vector<ValueId>& values, std::string_view letters, DType element) const {
    size_t at = 0;
    for (const ValueId value : values) {
      check(at < letters.size(), "{} has more operands than {}", instruction_.name, letters);
      const char letter = letters[at];
      expect(value, letter == 'i' ? DType::i32 : letter == 'f' ? DType::f32 : element);
      at += at + 1 < letters.size() && letters[at + 1] == '*' ? 0 : 1;
    }
  }

  void reshard() const {
    const bool sums =
        instruction_.opcode == Opcode::all_reduce || instruction_.opcode == Opcode::reduce_scatter;
    check(!sums || is_floating(program_.value(instruction_.inputs.at(0)).dtype), "{} sums integers",
          instruction_.name);
    for (const auto* values : {&instruction_.inputs, &instruction_.outputs}) {
      for (const ValueId value : *values) {
        expect(value, program_.value(instruction_.inputs.at(0)).dtype);
      }
    }
  }

  void convert() const {
    check(instruction_.inputs.size() == instruction_.outputs.size(),
          "{} has other numbers of inputs and outputs", instruction_.name);
    const DType from = program_.value(instruction_.inputs.at(0)).dtype;
    const DType to = program_.value(instruction_.outputs.at(0)).dtype;
    check(from != to && is_floating(from) && is_floating(to) &&
              (from == DType::f32 || to == DType::f32),
          "{} converts {} to {}", instruction_.name, name_of(from), name_of(to));
    for (size_t v = 0; v < instruction_.inputs.size(); ++v) {
      expect(instruction_.inputs[v], from);
      expect(instruction_.outputs[v], to);
    }
  }

 private:
  void expect(ValueId id, DType wanted) const {
    const Value& value = program_.value(id);
    check(value.dtype == wanted, "{} {} takes {} as {}, but it is {}", name_of(instruction_.opcode),
          instruction_.name, value.name, name_of(wanted), name_of(value.dtype));
  }

  const Program& program_;
  const Instruction& instruction_;
};

}  // namespace

void check_dtypes(const Program& program, const Instruction& instruction) {
  const DTypeCheck checks(program, instruction);
  if (is_reshard(instruction.opcode)) {
    checks.reshard();
  } else if (instruction.opcode == Opcode::convert) {
    checks.convert();
  } else {
    const std::string_view letters = operand_dtypes(instruction.opcode);
    const size_t arrow = letters.find('>');
    const DType element = element_dtype(program, instruction);
    checks.operands(instruction.inputs, letters.substr(0, arrow), element);
    checks.operands(instruction.outputs, letters.substr(arrow + 1), element);
  }
}

}  // namespace hidup
