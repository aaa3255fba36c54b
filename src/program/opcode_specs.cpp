#include <algorithm>
#include <array>

#include "core/check.h"
#include "program/opcode_table.h"

namespace hidup {
namespace {

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

BackwardOperand find_operand(const Signature& forward, std::string_view name) {
  using From = BackwardOperand::From;
  if (name == "dy") {
    return {From::output_gradient};
  }
  if (const int input = forward.inputs.find(name); input >= 0) {
    return {From::input, static_cast<size_t>(input)};
  }
  const int output = forward.outputs.find(name);
  check(output >= 0, "the backward pass takes {}, which is not there", name);
  return output == 0 ? BackwardOperand{From::output}
                     : BackwardOperand{From::saved, static_cast<size_t>(output) - 1};
}

BackwardStep backward_step(const Signature& forward, const BackwardRow& step) {
  BackwardStep backward{.opcode = step.opcode};
  for (const std::string_view name : words(step.operands)) {
    backward.operands.push_back(find_operand(forward, name));
  }
  for (const std::string_view name : words(step.gradients_of)) {
    const BackwardOperand input = find_operand(forward, name);
    check(input.from == BackwardOperand::From::input, "{} is no input", name);
    backward.gradients_of.push_back(input.index);
  }
  return backward;
}

OpcodeSpec spec_of_row(const OpcodeRow& row) {
  OpcodeSpec spec{.opcode = row.opcode,
                  .name = row.name,
                  .signature = Signature(row.signature),
                  .attributes = row.traits.attributes,
                  .flops = row.flops,
                  .sizes = row.traits.sizes,
                  .product = row.traits.product,
                  .one_piece = row.traits.one_piece,
                  .random = row.traits.random,
                  .fuses = row.traits.fuses,
                  .operation = row.traits.operation,
                  .backward = {},
                  .reshard = row.traits.reshard};
  for (const BackwardRow& step : row.traits.backward) {
    spec.backward.push_back(backward_step(spec.signature, step));
  }
  return spec;
}

const std::vector<OpcodeSpec>& specs() {
  static const std::vector<OpcodeSpec> kSpecs = [] {
    std::vector<OpcodeSpec> made;
    for (const OpcodeRow& row : opcode_rows()) {
      check(static_cast<size_t>(row.opcode) == made.size(), "{} is at the wrong place", row.name);
      made.push_back(spec_of_row(row));
    }
    return made;
  }();
  return kSpecs;
}

// Returns true where a step of the backward pass reads the operand.
bool backward_reads(OpKind kind, BackwardOperand::From from, size_t index) {
  return std::ranges::any_of(forward_of(kind).backward, [&](const BackwardStep& step) {
    return std::ranges::any_of(step.operands, [&](const BackwardOperand& operand) {
      return operand.from == from && operand.index == index;
    });
  });
}

}  // namespace

const OpcodeSpec& spec_of(Opcode opcode) {
  return specs().at(static_cast<size_t>(opcode));
}

std::span<const OpcodeSpec> all_opcodes() {
  return specs();
}

std::string_view name_of(Opcode opcode) {
  return spec_of(opcode).name;
}

std::string_view collective_of(Opcode opcode) {
  const OpcodeSpec& spec = spec_of(opcode);
  return spec.reshard && !is_local(*spec.reshard) ? spec.name : "";
}

bool is_reshard(Opcode opcode) {
  return spec_of(opcode).reshard.has_value();
}

bool is_product(Opcode opcode) {
  return spec_of(opcode).product;
}

Opcode opcode_of(ReshardKind kind) {
  return std::ranges::find(specs(), std::optional(kind), &OpcodeSpec::reshard)->opcode;
}

std::optional<Opcode> fusing(Opcode opcode) {
  const auto found = std::ranges::find(specs(), std::optional(opcode), &OpcodeSpec::fuses);
  return found == specs().end() ? std::nullopt : std::optional(found->opcode);
}

const OpcodeSpec& forward_of(OpKind kind) {
  static const auto kForward = [] {
    std::vector<const OpcodeSpec*> found;
    for (const OpcodeSpec& spec : specs()) {
      if (spec.operation) {
        found.resize(std::max(found.size(), static_cast<size_t>(*spec.operation) + 1));
        found[static_cast<size_t>(*spec.operation)] = &spec;
      }
    }
    return found;
  }();
  return *kForward.at(static_cast<size_t>(kind));
}

InstructionAttributes attributes_of(Opcode opcode, const Op& op) {
  InstructionAttributes attributes = spec_of(opcode).attributes;
  std::visit(
      [&](const auto& held) {
        if (auto* own = std::get_if<std::decay_t<decltype(held)>>(&attributes)) {
          *own = held;
        }
      },
      op.attributes);
  return attributes;
}

bool backward_needs_input(OpKind kind, size_t input) {
  return backward_reads(kind, BackwardOperand::From::input, input);
}

bool backward_needs_output(OpKind kind) {
  return backward_reads(kind, BackwardOperand::From::output, 0);
}

std::vector<int> backward_reads(const Graph& graph) {
  std::vector<int> reads(graph.tensors().size());
  for (const Op& op : graph.ops()) {
    reads[static_cast<size_t>(op.output)] += backward_needs_output(op.kind) ? 1 : 0;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      reads[static_cast<size_t>(op.inputs[i])] += backward_needs_input(op.kind, i) ? 1 : 0;
    }
  }
  return reads;
}

bool is_needed(const BackwardStep& step, const Graph& graph, const Op& op) {
  return std::ranges::any_of(step.gradients_of, [&](size_t input) {
    return graph.tensor(op.inputs[input]).role != Tensor::Role::input;
  });
}

int overwritten_input(OpKind kind) {
  const Signature& signature = forward_of(kind).signature;
  const std::vector<std::string_view>& over = signature.outputs.list()[0].over;
  return over.empty() ? -1 : signature.inputs.find(over.back());
}

}  // namespace hidup
