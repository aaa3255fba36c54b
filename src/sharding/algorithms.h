// Algorithms of the collectives of a strategy.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/collective_algorithm.h"
#include "sharding/reshard.h"

namespace hidup {

// Part of a strategy: the algorithm of a collective on an axis from this many bytes of a profile
// on.
struct AlgorithmChoice {
  ReshardKind collective = ReshardKind::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;

  bool operator==(const AlgorithmChoice&) const = default;
};

// Returns the algorithms of a collective, automatic first; none for local steps.
std::span<const CollectiveAlgorithm> algorithms_of(ReshardKind collective);

// Returns the algorithm of the choice with the most bytes up to these; automatic without one.
CollectiveAlgorithm chosen_algorithm(const std::vector<AlgorithmChoice>& choices,
                                     ReshardKind collective, size_t axis, double bytes);

}  // namespace hidup
