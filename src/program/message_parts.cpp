#include "program/message_parts.h"

#include <algorithm>

namespace hidup {

double paced_bytes(const Program& program, const Instruction& instruction, int64_t rank) {
  const auto bytes_of = [&](const std::vector<ValueId>& values) {
    double bytes = 0.0;
    for (const ValueId value : values) {
      bytes += program.value(value).holds.empty()
                   ? static_cast<double>(program.local_bytes(value, rank))
                   : 0.0;
    }
    return bytes;
  };
  const double in = bytes_of(instruction.inputs);
  const double out = bytes_of(instruction.outputs);
  const auto axis = static_cast<size_t>(instruction.axis);
  auto ranks = static_cast<double>(instruction.group.empty()
                                       ? program.mesh.at(axis).size
                                       : static_cast<int64_t>(instruction.group.size()));
  for (const int inner : instruction.inner_axes) {
    ranks *= static_cast<double>(program.mesh.at(static_cast<size_t>(inner)).size);
  }
  if (instruction.opcode == Opcode::all_gather) {
    return std::max(out, ranks * in);
  }
  if (instruction.opcode == Opcode::reduce_scatter) {
    return std::max(in, ranks * out);
  }
  return std::max(in, out);
}

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
  for (size_t i = 0; i < instruction.algorithms.size(); ++i) {
    parts.at(i).algorithm = instruction.algorithms[i];
  }
  return parts;
}

std::vector<CollectiveAlgorithm> algorithms_by(const std::vector<AlgorithmChoice>& choices,
                                               const Mesh& mesh, const Instruction& instruction,
                                               double bytes) {
  std::vector<CollectiveAlgorithm> algorithms;
  if (choices.empty()) {
    return algorithms;
  }
  for (const MessagePart& part : message_parts(mesh, instruction, bytes)) {
    algorithms.push_back(
        chosen_algorithm(choices, *spec_of(part.opcode).reshard, part.axis, part.bytes));
  }
  const bool any = std::ranges::any_of(algorithms, [](CollectiveAlgorithm algorithm) {
    return algorithm != CollectiveAlgorithm::automatic;
  });
  return any ? algorithms : std::vector<CollectiveAlgorithm>();
}

void choose_algorithms(Program& program, const std::vector<AlgorithmChoice>& choices) {
  const std::vector<int64_t> ranks = distinct_ranks(program);
  for (Instruction& instruction : program.instructions) {
    if (choices.empty() || collective_of(instruction.opcode).empty()) {
      continue;
    }
    double most = 0.0;
    for (const int64_t rank : ranks) {
      most = std::max(most, paced_bytes(program, instruction, rank));
    }
    instruction.algorithms = algorithms_by(choices, program.mesh, instruction, most);
  }
}

}  // namespace hidup
