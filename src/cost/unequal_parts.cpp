#include "cost/unequal_parts.h"

#include <limits>

#include "core/unequal_parts.h"

namespace hidup {

double padded_over_grouped(Opcode opcode) {
  switch (opcode) {
    case Opcode::all_gather:
      return kPaddedGather;
    case Opcode::reduce_scatter:
      return kPaddedScatter;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

double bytes_in_equal_parts(Opcode opcode, double padded, double sum) {
  const double rate = padded_over_grouped(opcode);
  return sum <= 0.0 || padding_is_faster(rate, padded / sum) ? padded : sum * rate;
}

}  // namespace hidup
