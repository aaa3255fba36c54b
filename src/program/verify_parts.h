// The part of verify() about the parts of ranks and the groups of collectives.
#pragma once

#include "program/program.h"

namespace hidup {

// Checks every distinct rank. Throws Error(internal) naming the instruction and the value unless
// - every share of the mesh has one weight per rank, none negative and not all 0, and every
//   placement names a share or a rank of its axis (of shares for the same ranks, the first);
// - every rank has the coordinates that an independent count gives it, its part of every value in
//   the executor is the part at these coordinates, and it skips instructions of which it has no
//   part;
// - the ranks' parts of a tensor that is cut along an axis follow each other without overlap or
//   gap;
// - a rank that does not skip an instruction has a part of all its operands (of some, for a place
//   and for a collective that moves values);
// - a collective's group is the ordered ranks of its axis that have a part of an operand, and all
//   operands have one layout along the other axes; the group of a joint all-to-all is all ranks of
//   its axes, which together have exactly once what each of them receives.
void verify_parts(const Program& program);

}  // namespace hidup
