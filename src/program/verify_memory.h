// The part of verify() about memory; for verify.cpp.
#pragma once

#include <vector>

#include "program/access.h"
#include "program/memory.h"

namespace hidup {

// Throws Error(internal) naming instructions and values unless
// - values that share bytes are used one after the other, and none of them is persistent;
// - two accesses of the same bytes, one of them a write, happen in the order of the list.
// The first access of an activation has to be a write. Takes O(n log n) in values and accesses.
void verify_memory(const Program& program, const MemoryPlan& plan, const Accesses& accesses,
                   const HappensBefore& before);

}  // namespace hidup
