// A step is started with these: its part of the data, and an order.
#pragma once

#include <cstdint>
#include <limits>

#include "deck/deck.h"
#include "runtime/executor.h"
#include "train/batches.h"

namespace hidup {

// The rank's parts of the tokens, targets and images of a step whose first sample is `first`.
// Samples from `end` on have no targets (-1, see kernels/cross_entropy.h).
void fill_inputs(const Program& program, int64_t rank, const Batches& batches, int64_t first,
                 StepInputs& inputs, int64_t end = std::numeric_limits<int64_t>::max());

// How its instructions follow each other, where their times are wanted and where not.
Executor::Order execution_order(const Deck& deck, bool timed = true);

}  // namespace hidup
