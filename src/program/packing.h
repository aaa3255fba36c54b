// Which messages go through buffers: for lower(), and for who counts their costs without a program.
#pragma once

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

// The parts of a joint collective's ranks lie in the value in another order than the ranks. Those
// of a flat sum or gather do not where ranks are numbered along the outermost axis last, for all
// its axes cut one dimension.
bool reorders_parts(const Mesh& mesh, const Instruction& instruction);

// How often messages are copied for each of the buffers that they go through: a hierarchical
// all-to-all also puts them in another order between its two exchanges.
double copies_per_buffer(const Instruction& instruction);

}  // namespace hidup
