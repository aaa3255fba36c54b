// Inputs of a step: its part of the data, and an execution order.
#pragma once

#include <cstdint>
#include <limits>

#include "deck/deck.h"
#include "runtime/executor.h"
#include "train/batches.h"

namespace hidup {

// Fills in the rank's parts of the tokens, targets, images and chosen experts of a step (from 1).
// Samples from `end` on have no targets (-1, see kernels/cross_entropy.h).
void fill_inputs(const Program& program, int64_t rank, const Deck& deck, const Batches& batches,
                 int64_t step, StepInputs& inputs,
                 int64_t end = std::numeric_limits<int64_t>::max());

// Returns the order of a step's instructions. `timed`: the step's times are recorded.
Executor::Order execution_order(const Deck& deck, bool timed = true);

}  // namespace hidup
