// Boxes of tensors, run by run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/region.h"

namespace hidup {

// Visits elements first .. first + count of a box (row-major in it), as the longest runs that are
// contiguous in the global tensor, too: visit(global element, local element, elements), in order.
template <typename Visit>
void for_each_run(const Region& box, int64_t first, int64_t count, const Visit& visit) {
  const int64_t run = box.contiguous_run();
  for (int64_t local = first; local < first + count;) {
    const int64_t length = std::min(run - local % run, first + count - local);
    visit(box.global_index(local), local, length);
    local += length;
  }
}

// Returns the first element of a box (row-major in it) whose global index is at least `global`, or
// the number of its elements where there is none.
inline int64_t first_from(const Region& box, int64_t global) {
  int64_t low = 0;  // global indices grow with the local ones
  int64_t high = box.elements();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (box.global_index(middle) < global) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace hidup
