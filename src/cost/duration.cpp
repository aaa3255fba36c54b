#include "cost/duration.h"

#include <algorithm>

#include "cost/unequal_parts.h"
#include "program/packing.h"
#include "program/work.h"

namespace hidup {
namespace {

double bytes_of_message(const Program& program, const CostModel& costs,
                        const Instruction& instruction, int64_t rank) {
  const double paced = paced_bytes(program, instruction, rank);
  return costs.rings_use_all_links()
             ? bytes_in_equal_parts(instruction.opcode, paced,
                                    bytes_of_all_parts(program, instruction, rank))
             : paced;
}

}  // namespace

Duration duration_of(const Program& program, const CostModel& costs, const Instruction& instruction,
                     int64_t rank) {
  if (skips(program, instruction, rank)) {
    return {};
  }
  if (collective_of(instruction.opcode).empty()) {
    const double seconds = costs.operation(instruction.opcode, work_of(program, instruction, rank));
    return {.alone_s = seconds, .beside_s = seconds};
  }
  const auto axis = static_cast<size_t>(instruction.axis);
  const double bytes = bytes_of_message(program, costs, instruction, rank);
  const MessageTime message = costs.message(program.mesh, instruction, bytes);
  Duration total{
      .alone_s = message.alone_s, .beside_s = message.beside_s, .slowdown = message.slowdown};
  for (const MessagePart& part : costs.timed_parts(program.mesh, instruction, bytes)) {
    if (part.axis == axis) {
      const auto alone_s = [&](double b) {
        return costs.collective(part.opcode, axis, b, part.algorithm).alone_s;
      };
      total.sending_s += part.times * std::max(0.0, alone_s(part.bytes) - alone_s(0.0));
    }
  }
  // Ranks pack and unpack messages in buffers, the operands that hold other values' data.
  double packed = 0.0;
  for (const ValueId id : instruction.outputs) {
    if (!program.value(id).holds.empty()) {
      packed += copies_per_buffer(instruction) * static_cast<double>(program.expected_bytes(id, rank));
    }
  }
  if (packed > 0.0) {
    const MessageTime copy = costs.collective(Opcode::slice, axis, packed);
    total.alone_s += copy.alone_s;
    total.beside_s += copy.beside_s;
    if (total.beside_s > 0.0) {
      total.slowdown =
          (message.slowdown * message.beside_s + copy.slowdown * copy.beside_s) / total.beside_s;
    }
  }
  return total;
}

}  // namespace hidup
