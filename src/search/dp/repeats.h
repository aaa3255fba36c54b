// Repeated blocks of operations, like the layers of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/problem/problem.h"

namespace hidup {

// Operations [begin, begin + count * period) whose blocks of `period` are equal.
struct Repeat {
  size_t begin = 0;
  size_t period = 1;
  size_t count = 1;  // at least 3
};

// The repeats of a sequence, which do not overlap.
std::vector<Repeat> find_repeats(const std::vector<uint64_t>& sequence);

// A number per operation. It is equal for operations that the search treats alike: they have the
// same choices; what they read was written equally far before them, with the same choices, and has
// the same other readers; and their output is read equally far behind them.
std::vector<uint64_t> signatures_of(const Problem& problem);
// A signature that depends on the number, too.
uint64_t combined(uint64_t signature, uint64_t number);

}  // namespace hidup
