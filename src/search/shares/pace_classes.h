// Classes of an axis's ranks with equal devices.
#pragma once

#include <cstdint>
#include <vector>

#include "sharding/placement.h"

namespace hidup {

// Ranks of an axis that compute at one pace and have as much memory.
struct PaceClass {
  double pace = 1.0;                 // Axis::paces
  int64_t memory = 0;                // bytes, the least at a coordinate; 0: no limits are given
  std::vector<int64_t> coordinates;  // on the axis, rising
};

// Returns the classes of the axis's ranks, the fastest first, then those with the most memory; none
// where all ranks are alike. `memory`: limits of all ranks; empty: they do not differ.
std::vector<PaceClass> pace_classes(const Mesh& mesh, size_t axis,
                                    const std::vector<int64_t>& memory = {});

// Returns a weight for each rank of the axis, from one weight for each class.
Share weights_of(const std::vector<PaceClass>& classes, const std::vector<int64_t>& by_class);

}  // namespace hidup
