// The time of one instruction on one rank.
#pragma once

#include <cstdint>

#include "cost/cost_model.h"
#include "program/program.h"

namespace hidup {

// Seconds of an instruction alone and beside the other stream, and its slowdown of that stream.
struct Duration {
  double alone_s = 0.0;
  double beside_s = 0.0;
  double slowdown = 1.0;
  // The part of alone_s that shrinks as the link's bandwidth grows (in a hierarchical collective,
  // the link of Instruction::axis); 0 for instructions that send nothing. The rest of alone_s is
  // the time of the smallest message and of packing.
  double sending_s = 0.0;
};

// Returns the duration on this rank. A collective is timed as if the parts of all ranks were as
// large as this rank's (paced_bytes()); with NCCL, where that is less, as unequal_parts.h says.
// Instructions that the rank skips take no time.
Duration duration_of(const Program& program, const CostModel& costs, const Instruction& instruction,
                     int64_t rank);

}  // namespace hidup
