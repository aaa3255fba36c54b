// Which messages go through buffers: for lower(), and for who counts their costs without a program.
#pragma once

#include <optional>
#include <vector>

#include "program/program.h"

namespace hidup {

// Whether messages go through buffers, because they do not lie in the values as they are sent.
struct Packing {
  bool sent = false;
  bool received = false;
};
// The packing of a reshard of `several` values together or of one, of that shape, as the placements
// on the reshard's axis tell. `reorders`: as below.
Packing packing_of(Opcode opcode, bool several, bool reorders, const Shape& shape,
                   const Placement& from, const Placement& to);

// Sets Instruction::sent_as of a collective of such values: `wanted` where it sums f32 of several
// ranks. A flat sum becomes a hierarchical one then, because its summands would all cross the outer
// axis before they are added.
void round_sums(const Mesh& mesh, Instruction& instruction, DType values,
                std::optional<DType> wanted);
// The buffer in which its messages lie as they are sent; `sums`: its outputs without buffers.
Value buffer_of_sums(const Instruction& instruction, const std::vector<ValueId>& sums);
// The parts of a joint collective's ranks lie in the value in another order than the ranks. Those
// of a flat sum or gather do not where ranks are numbered along the outermost axis last, for all
// its axes cut one dimension.
bool reorders_parts(const Mesh& mesh, const Instruction& instruction);

// How often messages are copied for each of the buffers that they go through: a hierarchical
// all-to-all also puts them in another order between its two exchanges, and an all-reduce that
// rounds what it sends reads and writes more than it has in its buffer.
double copies_per_buffer(const Instruction& instruction);

}  // namespace hidup
