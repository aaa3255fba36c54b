// Finds repeated blocks of operations, such as the layers of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/problem/problem.h"

namespace hidup {

// Operations [begin, begin + count * period), made of equal blocks of `period` operations.
struct Repeat {
  size_t begin = 0;
  size_t period = 1;
  size_t count = 1;  // at least 3
};

// Returns the repeats of a sequence; they do not overlap.
std::vector<Repeat> find_repeats(const std::vector<uint64_t>& sequence);

// Returns a number per operation, equal for operations that the search treats alike. Their choices
// are the same. Their inputs have equally distant producers, with the same choices and the same
// other readers. Their outputs have equally distant readers.
std::vector<uint64_t> signatures_of(const Problem& problem);
// Returns a signature that also depends on the number.
uint64_t combined(uint64_t signature, uint64_t number);

}  // namespace hidup
