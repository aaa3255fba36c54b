// Collectives of unequal parts with NCCL, whose all-gather and reduce-scatter have equal parts
// only.
#pragma once

#include "program/opcodes.h"

namespace hidup {

// Padded: an all-gather or a reduce-scatter of parts that are all as large as the largest. Grouped:
// a broadcast or a reduce per part, all in one group.
enum class UnequalParts { padded, grouped };

// Returns the rate of a padded collective over that of a grouped one, which moves its bytes more
// slowly: 1.035 for an all-gather and 1.112 for a reduce-scatter, as HAP (EuroSys 2024) measured on
// a network of 10.4 Gbps. Other collectives have no grouped form: infinity.
double padded_over_grouped(Opcode opcode);

// Returns the faster way for a largest part of so many times the mean: padded takes the number of
// parts times the largest, over its rate; grouped the sum of the parts, over its own.
UnequalParts faster_way(Opcode opcode, double largest_over_mean);

// Returns the bytes that take as long in equal parts. `padded`: the number of parts times the
// largest, in bytes; `sum`: of all parts.
double bytes_in_equal_parts(Opcode opcode, double padded, double sum);

}  // namespace hidup
