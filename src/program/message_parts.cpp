#include "program/message_parts.h"

#include <algorithm>
#include <span>

namespace hidup {

namespace {

// The bytes of a rank's operands, in the dtype of the values, whatever the dtype of the messages.
struct OperandBytes {
  double in = 0.0, out = 0.0;
};

OperandBytes bytes_of_operands(const Program& program, const Instruction& instruction,
                               int64_t rank) {
  const auto bytes_of = [&](const std::vector<ValueId>& values) {
    double bytes = 0.0;
    for (const ValueId value : values) {
      bytes += program.value(value).holds.empty()
                   ? static_cast<double>(program.expected_bytes(value, rank))
                   : 0.0;
    }
    return bytes;
  };
  return {bytes_of(instruction.inputs), bytes_of(instruction.outputs)};
}

double bytes_of_values(const Program& program, const Instruction& instruction, int64_t rank) {
  const auto [in, out] = bytes_of_operands(program, instruction, rank);
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

// Returns the parts of one exchange among the ranks of these axes, outermost first. A part has the
// bytes between ranks that differ along its axis and along none outside it.
std::vector<MessagePart> flat_parts(const Mesh& mesh, std::span<const int> axes, double bytes) {
  std::vector<MessagePart> parts;
  for (size_t a = 0; a < axes.size(); ++a) {
    double inside = 1.0;
    for (const int inner : axes.subspan(a + 1)) {
      inside *= static_cast<double>(mesh.at(static_cast<size_t>(inner)).size);
    }
    const auto axis = static_cast<size_t>(axes[a]);
    parts.push_back({Opcode::all_to_all, axis, bytes / inside, inside});
    bytes /= static_cast<double>(mesh.at(axis).size);
  }
  return parts;
}

std::vector<MessagePart> exchange_parts(const Mesh& mesh, const Instruction& instruction,
                                        double bytes) {
  std::vector<int> axes = {instruction.axis};
  axes.insert(axes.end(), instruction.inner_axes.begin(), instruction.inner_axes.end());
  if (instruction.flat) {
    return flat_parts(mesh, axes, bytes);
  }
  std::vector<MessagePart> parts = flat_parts(mesh, instruction.inner_axes, bytes);
  parts.push_back({Opcode::all_to_all, static_cast<size_t>(instruction.axis), bytes});
  return parts;
}

// Returns the fraction of its bytes that a rank of a ring sends.
double sent_in_ring(double ranks) {
  return (ranks - 1.0) / ranks;
}

std::vector<MessagePart> ring_parts(const Mesh& mesh, const Instruction& instruction,
                                    double bytes) {
  std::vector<int> axes = {instruction.axis};
  axes.insert(axes.end(), instruction.inner_axes.begin(), instruction.inner_axes.end());
  const auto size_of_axis = [&](int axis) {
    return static_cast<double>(mesh.at(static_cast<size_t>(axis)).size);
  };
  double ranks = 1.0;
  for (const int axis : axes) {
    ranks *= size_of_axis(axis);
  }
  const double sent = bytes * sent_in_ring(ranks);
  std::vector<MessagePart> parts;
  double inside = ranks;
  for (const int axis : axes) {
    inside /= size_of_axis(axis);
    parts.push_back({instruction.opcode, static_cast<size_t>(axis),
                     sent / inside / sent_in_ring(size_of_axis(axis))});
  }
  return parts;
}

// Sums, gathers and reduce-scatters: all bytes go along the inner axes, and the distinct bytes of
// the ranks inside go along the outer axis.
std::vector<MessagePart> nested_parts(const Mesh& mesh, const Instruction& instruction,
                                      double bytes) {
  std::vector<MessagePart> inwards;  // parts along the inner axes, innermost first
  for (size_t i = instruction.inner_axes.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(instruction.inner_axes[i]);
    inwards.push_back({.axis = axis, .bytes = bytes});
    bytes /= static_cast<double>(mesh.at(axis).size);
  }
  const bool rounds = instruction.sent_as.has_value();
  const Opcode scatters = rounds ? Opcode::all_to_all : Opcode::reduce_scatter;
  const auto with = [&](Opcode opcode) {
    std::vector<MessagePart> parts = inwards;
    for (MessagePart& part : parts) {
      part.opcode = opcode;
    }
    return parts;
  };
  std::vector<MessagePart> parts;
  if (instruction.opcode != Opcode::all_gather) {
    parts = with(scatters);
  }
  const auto axis = static_cast<size_t>(instruction.axis);
  if (rounds) {
    parts.push_back({scatters, axis, bytes});
  }
  if (!rounds || instruction.opcode == Opcode::all_reduce) {
    parts.push_back({rounds ? Opcode::all_gather : instruction.opcode, axis, bytes});
  }
  if (instruction.opcode != Opcode::reduce_scatter) {
    std::ranges::reverse(inwards);
    const std::vector<MessagePart> gathers = with(Opcode::all_gather);
    parts.insert(parts.end(), gathers.begin(), gathers.end());
  }
  return parts;
}

}  // namespace

double paced_bytes(const Program& program, const Instruction& instruction, int64_t rank) {
  return sent_part(program, instruction) * bytes_of_values(program, instruction, rank);
}

double bytes_of_all_parts(const Program& program, const Instruction& instruction, int64_t rank) {
  const auto [in, out] = bytes_of_operands(program, instruction, rank);
  return sent_part(program, instruction) * std::max(in, out);
}

std::vector<MessagePart> message_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes) {
  std::vector<MessagePart> parts = is_joint_exchange(instruction)
                                       ? exchange_parts(mesh, instruction, bytes)
                                   : instruction.flat ? ring_parts(mesh, instruction, bytes)
                                                      : nested_parts(mesh, instruction, bytes);
  for (size_t i = 0; i < instruction.algorithms.size(); ++i) {
    parts.at(i).algorithm = instruction.algorithms[i];
  }
  return parts;
}

bool run_at_once(const Instruction& instruction) {
  return instruction.flat && !is_joint_exchange(instruction);
}

std::vector<CollectiveAlgorithm> algorithms_by(const std::vector<AlgorithmChoice>& choices,
                                               const Mesh& mesh, const Instruction& instruction,
                                               double bytes) {
  std::vector<CollectiveAlgorithm> algorithms;
  const bool mixes_axes =  // no profile times exchanges of such groups
      instruction.flat || (is_joint_exchange(instruction) && instruction.inner_axes.size() > 1);
  if (choices.empty() || mixes_axes) {
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
