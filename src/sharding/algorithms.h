// By which algorithms the collectives of a strategy are done.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/collective_algorithm.h"
#include "sharding/reshard.h"

namespace hidup {

// Part of a strategy: how a collective along an axis is done from so many bytes on, which count as
// those of a profile do.
struct AlgorithmChoice {
  ReshardKind collective = ReshardKind::all_reduce;
  size_t axis = 0;
  double bytes = 0.0;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;

  bool operator==(const AlgorithmChoice&) const = default;
};

// Those that a collective can be done by, automatic first; none of what is local.
std::span<const CollectiveAlgorithm> algorithms_of(ReshardKind collective);

// That of the choice with the most bytes up to these; automatic where there is none.
CollectiveAlgorithm chosen_algorithm(const std::vector<AlgorithmChoice>& choices,
                                     ReshardKind collective, size_t axis, double bytes);

}  // namespace hidup
