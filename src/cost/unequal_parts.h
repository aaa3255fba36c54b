// Collectives of unequal parts with NCCL (core/unequal_parts.h).
#pragma once

#include "program/opcodes.h"

namespace hidup {

// Returns the rate of a padded collective over that of a grouped one. Collectives without a grouped
// form: infinity.
double padded_over_grouped(Opcode opcode);

// Returns the bytes that take as long in equal parts. `padded`: the number of parts times the
// largest, in bytes; `sum`: of all parts.
double bytes_in_equal_parts(Opcode opcode, double padded, double sum);

}  // namespace hidup
