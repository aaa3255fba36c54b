// Packing of messages in buffers: for lower(), and for cost estimates without a program.
#pragma once

#include <optional>
#include <vector>

#include "program/program.h"

namespace hidup {

// Tells which messages go through buffers because the values do not have them in sending order.
struct Packing {
  bool sent = false;
  bool received = false;
};
// Returns the packing of a reshard of one value or `several` values of that shape, given the
// placements on the reshard's axis. `reorders`: reorders_parts().
Packing packing_of(Opcode opcode, bool several, bool reorders, const Shape& shape,
                   const Placement& from, const Placement& to);

// Sets Instruction::sent_as of a collective to `wanted` where it sums f32 values of several ranks.
// A flat sum then becomes hierarchical, so that summands are added before they cross the outer
// axis.
void round_sums(const Mesh& mesh, Instruction& instruction, DType values,
                std::optional<DType> wanted);
// Returns the buffer for the messages of a rounded sum; `sums`: the outputs without buffers.
Value buffer_of_sums(const Instruction& instruction, const std::vector<ValueId>& sums);
// Returns true where a joint collective has its parts in the value in another order than its ranks.
// A flat sum or gather does not where ranks are numbered along the outermost axis last, because all
// its axes cut one dimension.
bool reorders_parts(const Mesh& mesh, const Instruction& instruction);

// Returns the number of copies per message buffer. A hierarchical all-to-all also reorders messages
// between its exchanges; an all-reduce that rounds moves more bytes than its buffer holds.
double copies_per_buffer(const Instruction& instruction);

}  // namespace hidup
