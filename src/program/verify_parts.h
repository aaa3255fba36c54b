// The part of verify() about which ranks have parts of what, and take part in what.
#pragma once

#include "program/program.h"

namespace hidup {

// Throws Error(internal) naming the instruction and the value unless
// - every share of the mesh has one weight per rank, none negative and not all 0, and every
//   placement names a share or a rank of its axis, the first of those that stand for the same
//   ranks;
// - every rank has the coordinates that the mesh gives it, by a count of its own, and by these the
//   part of every value that the executor takes for its own, and skips what it has no part of;
// - the ranks' parts of a tensor that is cut along an axis lie in it one behind the other, without
//   overlaps or gaps;
// - a rank that does not skip an instruction has a part of all its operands (of what a place adds
//   to and a collective moves: of some);
// - a collective's group is those ranks of its axis that have a part of an operand, in order, and
//   along the other axes its operands lie alike; that of a joint all-to-all is all ranks of its
//   axes, which have together, once, what each of them gets.
// Looks at every distinct rank.
void verify_parts(const Program& program);

}  // namespace hidup
