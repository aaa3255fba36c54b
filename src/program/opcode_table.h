// The rows of the table of opcodes; for opcodes.cpp and opcode_specs.cpp only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "program/opcodes.h"
#include "program/sizes.h"

namespace hidup {

// A step of the backward pass names its operands as the signature does; dy is the gradient of the
// output. Without an opcode that is the gradient of the input, too.
struct BackwardRow {
  std::optional<Opcode> opcode;
  std::string_view operands;
  std::string_view gradients_of;
};

// What most opcodes have no use for.
struct OpcodeTraits {
  InstructionAttributes attributes = {};
  Sizes (*sizes)(const InstructionAttributes& attributes, OpcodeSpec::Shapes in,
                 OpcodeSpec::Shapes out) = rows_and_columns;
  bool product = false;
  bool one_piece = false;
  bool random = false;
  std::optional<Opcode> fuses = {};
  std::optional<OpKind> operation = {};
  std::vector<BackwardRow> backward = {};
  std::optional<ReshardKind> reshard = {};
};

struct OpcodeRow {
  Opcode opcode;
  std::string_view name;
  std::string_view signature;
  double (*flops)(const InstructionAttributes& attributes, OpcodeSpec::Shapes in,
                  OpcodeSpec::Shapes out);
  OpcodeTraits traits = {};
};

// In the order of Opcode.
const std::vector<OpcodeRow>& opcode_rows();

}  // namespace hidup
