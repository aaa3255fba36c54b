// Which instructions operations and reshards become: for lower(), and for who counts their costs
// without a program.
#pragma once

#include <vector>

#include "program/program.h"
#include "sharding/reshard.h"
#include "sharding/strategy.h"

namespace hidup {

Opcode forward_opcode(OpKind kind);
Opcode opcode_of(ReshardKind kind);

// Whether messages go through buffers, because they do not lie in the values as they are sent.
struct Packing {
  bool sent = false;
  bool received = false;
};
// Of a reshard of `several` values together or of one, of that shape, along one axis.
Packing packing_of(Opcode opcode, bool several, const Shape& shape, const Placement& from,
                   const Placement& to);

// Where the classes of a cross-entropy are cut, ranks exchange two numbers per target. The layouts
// of these, f32 [parts, batch, sequence, 2]: as a rank makes them, and as it needs them.
struct ClassStats {
  int64_t parts = 1;  // 1: the classes are not cut
  Layout made, needed;
};
ClassStats class_stats(const Graph& graph, OpId op, const OpStrategy& ways, const Mesh& mesh);

}  // namespace hidup
