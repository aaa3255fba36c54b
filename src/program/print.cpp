#include "program/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace hidup {
namespace {

std::string_view role_name(Value::Role role) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "input", "parameter", "gradient", "optimizer_state", "result", "counts", "activation"};
  return kNames.at(static_cast<size_t>(role));
}

std::string print_values(const Program& program, const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId value : values) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", program.value(value).name);
  }
  return text;
}

std::string print_attributes(const Instruction& instruction) {
  std::vector<std::string> items;
  for_each_attribute(instruction.attributes, [&](std::string_view name, double value) {
    items.push_back(fmt::format("{}={}", name, value));
  });
  if (instruction.axis >= 0) {
    items.push_back(fmt::format("axis={}", instruction.axis));
  }
  if (!instruction.inner_axes.empty()) {
    items.push_back(fmt::format("inside={}", fmt::join(instruction.inner_axes, " ")));
  }
  if (instruction.flat) {
    items.emplace_back("flat");
  }
  if (!instruction.algorithms.empty()) {
    items.push_back(fmt::format("by={}", names_of(instruction.algorithms)));
  }
  if (instruction.sent_as) {
    items.push_back(fmt::format("sent={}", name_of(*instruction.sent_as)));
  }
  if (!instruction.group.empty()) {
    items.push_back(fmt::format("ranks={}", fmt::join(instruction.group, " ")));
  }
  if (instruction.recomputed) {
    items.emplace_back("recomputed");
  }
  if (instruction.accumulate) {
    items.emplace_back("accumulate");
  }
  if (!instruction.purpose.empty()) {
    items.push_back("random=" + instruction.purpose);
  }
  return items.empty() ? "" : fmt::format(" {{{}}}", fmt::join(items, ", "));
}

}  // namespace

std::string print_program(const Program& program) {
  std::string text = fmt::format("program {}\nmesh", program.name);
  for (const Axis& axis : program.mesh) {
    text += fmt::format(" {}={}", axis.name, axis.size);
  }
  text += fmt::format("\n\n{} values\n", program.values.size());
  const std::string padding = fmt::format(", rows padded to multiples of {}", kRowMultiple);
  for (const Value& value : program.values) {
    text +=
        value.holds.empty()
            ? fmt::format("  {} : {}{} {} {}{}{}\n", value.name, name_of(value.dtype),
                          to_string(value.shape), to_string(value.layout), role_name(value.role),
                          value.padded_rows ? padding : "",
                          value.packed ? ", rows packed by counts" : "")
            : fmt::format("  {} : buffer for {}\n", value.name, print_values(program, value.holds));
  }
  text += fmt::format("\n{} instructions\n", program.instructions.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    text +=
        fmt::format("{:5} {:7} {:8} {:>2} {} {} ({}) -> ({}){}", i, name_of(instruction.stream),
                    name_of(instruction.phase), instruction.microbatch, name_of(instruction.opcode),
                    instruction.name, print_values(program, instruction.inputs),
                    print_values(program, instruction.outputs), print_attributes(instruction));
    if (!instruction.after_uses_of.empty()) {
      text += fmt::format(" after uses of ({})", print_values(program, instruction.after_uses_of));
    }
    if (!instruction.waits.empty()) {
      text += fmt::format(" waits for {}", fmt::join(instruction.waits, ", "));
    }
    text += "\n";
  }
  return text;
}

std::string describe(const Program& program, int instruction) {
  const Instruction& described = program.instructions[static_cast<size_t>(instruction)];
  return fmt::format("instruction {} ({} {})", instruction, name_of(described.opcode),
                     described.name);
}

std::string print_collectives(const Program& program) {
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    if (collective_of(instruction.opcode).empty()) {
      continue;
    }
    int64_t count = 0;
    for (const ValueId value : instruction.inputs) {
      count += elements(program.value(value).shape);
    }
    text += fmt::format("{} {} of {} elements along axis {}", name_of(instruction.opcode),
                        instruction.name, count, instruction.axis);
    text += instruction.inner_axes.empty()
                ? ""
                : fmt::format(" and inside of it {}", fmt::join(instruction.inner_axes, " "));
    text += instruction.flat ? ", flat" : "";
    text += instruction.algorithms.empty()
                ? ""
                : fmt::format(" by {}", names_of(instruction.algorithms));
    text += instruction.sent_as ? fmt::format(" as {}", name_of(*instruction.sent_as)) : "";
    text += instruction.group.empty()
                ? "\n"
                : fmt::format(" of ranks {}\n", fmt::join(instruction.group, " "));
  }
  return text;
}

}  // namespace hidup
