// The table of opcodes; for opcodes.cpp and opcode_specs.cpp only.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "program/opcodes.h"
#include "program/sizes.h"

namespace hidup {

// A step of the backward pass. It names its operands as the signature does; dy is the gradient of
// the output. Without an opcode, dy is also the gradient of the input.
struct BackwardRow {
  std::optional<Opcode> opcode;
  std::string_view operands;
  std::string_view gradients_of;
};

// Fields that most opcodes leave at their defaults.
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

// Returns the rows in the order of Opcode.
const std::vector<OpcodeRow>& opcode_rows();

}  // namespace hidup
