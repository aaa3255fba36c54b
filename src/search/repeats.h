// Repeated blocks of operations, as a model's layers are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/problem.h"

namespace hidup {

// Operations [begin, begin + count * period) whose blocks of `period` are equal.
struct Repeat {
  size_t begin = 0;
  size_t period = 1;
  size_t count = 1;  // at least 3
};

// Those of a sequence, one behind the other.
std::vector<Repeat> find_repeats(const std::vector<uint64_t>& sequence);

// A number per operation that two have in common if the search treats them alike: their choices,
// how far before them what they read was written and in which choices, and who else reads it, and
// how far behind them their output is read.
std::vector<uint64_t> signatures_of(const Problem& problem);
// One that says that much more.
uint64_t combined(uint64_t signature, uint64_t number);

}  // namespace hidup
