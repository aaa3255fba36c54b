#include "sharding/reshard.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "program/lowering.h"
#include "program/opcodes.h"

namespace hidup {

ValueId Lowering::reshard(ValueId from, const Layout& to, const std::string& name, bool overwrite) {
  return reshard_all({from}, to, name, overwrite)[0];
}

Lowering::Operands Lowering::reshard_all(const Operands& from, const Layout& to,
                                         const std::string& name, bool overwrite,
                                         const Operands& into) {
  Operands now = from;
  const std::vector<ReshardStep> steps = reshard_steps(program_.value(from[0]).layout, to);
  for (size_t s = 0; s < steps.size(); ++s) {
    const Opcode opcode = opcode_of(steps[s].kind);
    const std::string step_name = fmt::format("{}.{}", name, name_of(steps[s].kind));
    Operands next;
    for (size_t v = 0; v < now.size(); ++v) {
      if (s + 1 == steps.size() && !into.empty()) {
        next.push_back(into[v]);
      } else if (opcode == Opcode::all_reduce && overwrite) {
        program_.values[index(now[v])].layout = steps[s].to;
        next.push_back(now[v]);
      } else {
        const Value& old = program_.value(now[v]);
        next.push_back(add_value({.name = now.size() == 1 ? step_name : old.name + ".part",
                                  .dtype = old.dtype,
                                  .shape = old.shape,
                                  .layout = steps[s].to,
                                  .batch = old.batch,
                                  .decay = old.decay}));
      }
    }
    // A sum of several values at once needs them in one piece; local work is by value.
    if (is_local(steps[s].kind) || (opcode == Opcode::all_reduce && !one_piece(now))) {
      for (size_t v = 0; v < now.size(); ++v) {
        emit_reshard(opcode, steps[s].axis, step_name, {now[v]}, {next[v]});
      }
    } else {
      emit_reshard(opcode, steps[s].axis, step_name, now, next);
    }
    now = next;
    overwrite = true;
  }
  return now;
}

bool Lowering::one_piece(const Operands& values) const {
  return values.size() == 1 || std::ranges::all_of(values, [this](ValueId value) {
           return program_.value(value).role == Value::Role::gradient ||
                  program_.value(value).role == Value::Role::result;
         });
}

// Messages go through buffers unless they lie in the values as they are sent.
void Lowering::emit_reshard(Opcode opcode, size_t axis, const std::string& name,
                            const Operands& inputs, Operands outputs) {
  const bool several = inputs.size() > 1;
  const Shape shape = program_.value(inputs[0]).shape;
  const Placement from = program_.value(inputs[0]).layout[axis];
  const Placement to = program_.value(outputs[0]).layout[axis];
  const Packing packing = packing_of(opcode, several, shape, from, to);
  const DType dtype = program_.value(inputs[0]).dtype;
  const Operands results = outputs;
  if (packing.sent) {
    outputs.push_back(add_value({.name = name + ".send", .dtype = dtype, .holds = inputs}));
  }
  if (packing.received) {
    outputs.push_back(add_value({.name = name + ".receive", .dtype = dtype, .holds = results}));
  }
  Instruction& instruction = emit(opcode, name, inputs, outputs);
  instruction.axis = static_cast<int>(axis);
  if (packing.sent) {
    instruction.attributes["packs"] = 1.0;
  }
  if (packing.received) {
    instruction.attributes["unpacks"] = 1.0;
  }
}

}  // namespace hidup
