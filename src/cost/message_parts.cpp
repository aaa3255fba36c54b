#include "cost/message_parts.h"

#include <algorithm>

namespace hidup {

std::vector<MessagePart> message_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes) {
  std::vector<MessagePart> inwards;  // to what is inside, from the innermost axis on
  for (size_t i = instruction.inner_axes.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(instruction.inner_axes[i]);
    inwards.push_back({.axis = axis, .bytes = bytes});
    bytes /= static_cast<double>(mesh.at(axis).size);
  }
  const auto with = [&](Opcode opcode) {
    std::vector<MessagePart> parts = inwards;
    for (MessagePart& part : parts) {
      part.opcode = opcode;
    }
    return parts;
  };
  std::vector<MessagePart> parts;
  if (instruction.opcode != Opcode::all_gather) {
    parts = with(Opcode::reduce_scatter);
  }
  parts.push_back({instruction.opcode, static_cast<size_t>(instruction.axis), bytes});
  if (instruction.opcode != Opcode::reduce_scatter) {
    std::ranges::reverse(inwards);
    const std::vector<MessagePart> gathers = with(Opcode::all_gather);
    parts.insert(parts.end(), gathers.begin(), gathers.end());
  }
  return parts;
}

}  // namespace hidup
