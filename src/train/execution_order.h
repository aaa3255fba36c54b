// How the instructions of a step follow each other.
#pragma once

#include "deck/deck.h"
#include "runtime/executor.h"

namespace hidup {

// As the deck has it, where their times are wanted and where not.
Executor::Order execution_order(const Deck& deck, bool timed = true);

}  // namespace hidup
