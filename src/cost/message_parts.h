// What a collective sends along each of its axes.
#pragma once

#include <vector>

#include "program/program.h"

namespace hidup {

// A collective along one axis; bytes as paced_bytes() counts them.
struct MessagePart {
  Opcode opcode = Opcode::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
};

// The collectives, one after the other, that one of so many paced_bytes() consists of: itself, or,
// of a hierarchical one, those along its axes. Of n ranks inside, a sum goes on outside with one
// n-th of the bytes: reduce-scatter inside, all-reduce outside, all-gather inside.
std::vector<MessagePart> message_parts(const Mesh& mesh, const Instruction& instruction,
                                       double bytes);

}  // namespace hidup
