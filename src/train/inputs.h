// From the data to what a rank's program reads.
#pragma once

#include "runtime/executor.h"
#include "train/batches.h"

namespace hidup {

// The rank's parts of the tokens and targets of a step whose first sample is `first`.
void fill_inputs(const Program& program, int64_t rank, const Batches& batches, int64_t first,
                 StepInputs& inputs);

}  // namespace hidup
