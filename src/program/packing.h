// Which messages go through buffers: for lower(), and for who counts their costs without a program.
#pragma once

#include "program/opcodes.h"
#include "sharding/placement.h"

namespace hidup {

// Whether messages go through buffers, because they do not lie in the values as they are sent.
struct Packing {
  bool sent = false;
  bool received = false;
};
// Of a reshard of `several` values together or of one, of that shape, along one axis; or, where it
// is `hierarchical`, of one that has the ranks of the innermost axis furthest apart.
Packing packing_of(Opcode opcode, bool several, bool hierarchical, const Shape& shape,
                   const Placement& from, const Placement& to);

}  // namespace hidup
