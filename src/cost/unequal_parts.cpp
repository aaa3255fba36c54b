#include "cost/unequal_parts.h"

#include <limits>

namespace hidup {

double padded_over_grouped(Opcode opcode) {
  // Measured bytes/s: padded, and grouped.
  switch (opcode) {
    case Opcode::all_gather:
      return 9463184466.0 / 9146232360.0;
    case Opcode::reduce_scatter:
      return 9740459122.0 / 8756865799.0;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

UnequalParts faster_way(Opcode opcode, double largest_over_mean) {
  return largest_over_mean <= padded_over_grouped(opcode) ? UnequalParts::padded
                                                          : UnequalParts::grouped;
}

double bytes_in_equal_parts(Opcode opcode, double padded, double sum) {
  return sum <= 0.0 || faster_way(opcode, padded / sum) == UnequalParts::padded
             ? padded
             : sum * padded_over_grouped(opcode);
}

}  // namespace hidup
