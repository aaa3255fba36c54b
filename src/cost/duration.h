// What one instruction takes on one rank.
#pragma once

#include <cstdint>

#include "cost/cost_model.h"
#include "program/program.h"

namespace hidup {

// Seconds of an instruction alone, and beside the other stream; how much it slows that.
struct Duration {
  double alone_s = 0.0;
  double beside_s = 0.0;
  double slowdown = 1.0;
  // Of alone_s: the part that grows with the bandwidth of the link (of a hierarchical collective,
  // that of Instruction::axis); 0 of what sends nothing. The rest is the time of the smallest
  // message, and of packing.
  double sending_s = 0.0;
};

// Of a collective, as if all ranks had parts like this one (paced_bytes()). Nothing for what the
// rank skips.
Duration duration_of(const Program& program, const CostModel& costs, const Instruction& instruction,
                     int64_t rank);

}  // namespace hidup
